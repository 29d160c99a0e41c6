"""The side that shares no code with the library: PyTorch's layers, loss and Adam.

python torch_side.py FOLDER UPDATES [float64]
"""

import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn

FOLDER, UPDATES = Path(sys.argv[1]), int(sys.argv[2])
torch.set_default_dtype(getattr(torch, sys.argv[3] if len(sys.argv) > 3 else "float32"))
D_MODEL, NUM_LAYERS, D_FF, NUM_HEADS, WARMUP_STEPS, PADDING = 256, 6, 1024, 8, 4000, 0
CHECKED = [1, 2, 3, 5, *range(10, 101, 10), 200, 500, 1000]


class Model(nn.Module):
    """The paper's model from `torch.nn.Transformer`."""

    def __init__(self, vocab_size: int):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, D_MODEL)
        self.transformer = nn.Transformer(
            D_MODEL,
            NUM_HEADS,
            NUM_LAYERS,
            NUM_LAYERS,
            D_FF,
            dropout=0.0,
            batch_first=True,
            layer_norm_eps=1e-6,
        )
        self.transformer.encoder.norm = self.transformer.decoder.norm = None
        for module in self.transformer.modules():
            if isinstance(module, nn.MultiheadAttention):
                # The paper's projections have no bias.
                for bias in (module.in_proj_bias, module.out_proj.bias):
                    nn.init.zeros_(bias)
                    bias.requires_grad = False

    def embed(self, ids, shift):
        """Returns scaled embeddings, moved to the right by `shift`, plus the sinusoids."""
        x = self.embedding(ids) * D_MODEL**0.5
        x = nn.functional.pad(x, (0, 0, shift, 0))[:, : ids.shape[1]]
        even = torch.arange(0, D_MODEL, 2, dtype=torch.float64)
        angles = torch.arange(ids.shape[1])[:, None] / 10_000 ** (even / D_MODEL)
        waves = torch.stack([angles.sin(), angles.cos()], -1).flatten(1)
        return x + waves.to(x.dtype)

    def forward(self, source, target):
        """Returns logits."""
        padding = source == PADDING
        length = target.shape[1]
        causal = torch.ones(length, length, dtype=torch.bool).triu(1)
        outputs = self.transformer(
            self.embed(source, 0),
            self.embed(target, 1),
            tgt_mask=causal,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
        )
        return outputs @ self.embedding.weight.T


def named_weights(model):
    """Returns views of the weights by the names in start.npz; kernels are transposed."""
    weights = {"embedding": model.embedding.weight}
    for part in ("encoder", "decoder"):
        for i, layer in enumerate(getattr(model.transformer, part).layers):
            attentions, norms = {"self": layer.self_attn}, [layer.norm1, layer.norm2]
            if part == "decoder":
                attentions["memory"] = layer.multihead_attn
                norms.append(layer.norm3)
            stem = f"{part}.{i}"
            for (kind, attention), norm in zip(attentions.items(), norms, strict=False):
                matrices = attention.in_proj_weight.split(D_MODEL)
                for name, matrix in zip(("query", "key", "value"), matrices, strict=True):
                    weights[f"{stem}.{kind}.{name}"] = matrix.T
                weights[f"{stem}.{kind}.out"] = attention.out_proj.weight.T
                weights[f"{stem}.{kind}.gamma"] = norm.weight
                weights[f"{stem}.{kind}.beta"] = norm.bias
            for name, linear in (("inner", layer.linear1), ("outer", layer.linear2)):
                weights[f"{stem}.{name}.kernel"] = linear.weight.T
                weights[f"{stem}.{name}.bias"] = linear.bias
            weights[f"{stem}.gamma"], weights[f"{stem}.beta"] = norms[-1].weight, norms[-1].bias
    return weights


def main():
    """Trains on the batches of the folder."""
    torch.manual_seed(1)
    start, arrays = np.load(FOLDER / "start.npz"), np.load(FOLDER / "batches.npz")
    model = Model(len(start["embedding"]))
    with torch.no_grad():
        weights = named_weights(model)
        assert set(weights) == set(start)
        for name, weight in weights.items():
            weight.copy_(torch.from_numpy(start[name]))
    output = FOLDER / "torch"
    output.mkdir(exist_ok=True)
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    adam = torch.optim.Adam(trained, 0.0, (0.9, 0.98), 1e-9)
    losses, rates = [], []
    options = dict(ignore_index=PADDING, label_smoothing=0.1)
    for number in range(1, UPDATES + 1):
        source, target = (
            torch.from_numpy(arrays[f"{side}_{number - 1}"]).long() for side in ("source", "target")
        )
        rate = D_MODEL**-0.5 * min(number**-0.5, number * WARMUP_STEPS**-1.5)
        adam.param_groups[0]["lr"] = rate
        logits = model(source, target).flatten(0, 1)
        loss = nn.functional.cross_entropy(logits, target.flatten(), **options)
        adam.zero_grad()
        loss.backward()
        adam.step()
        losses.append(loss.item())
        rates.append(rate)
        if number in CHECKED:
            arrays_now = {k: w.detach().numpy() for k, w in named_weights(model).items()}
            np.savez(output / f"{number}.npz", **arrays_now)
        if number % 100 == 0:
            print(output.name, number, losses[-1], flush=True)
    np.save(output / "losses.npy", np.array(losses))
    np.save(output / "rates.npy", np.array(rates))


main()
