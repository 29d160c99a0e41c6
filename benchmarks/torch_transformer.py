"""A training step of the same model by PyTorch's own layers, compiled by torch.compile."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional


class TorchTransformer(nn.Module):
    """The paper's model: post-norm, ReLU, sinusoids, one matrix for both embeddings and softmax.

    No sentence has padding, so that no mask but the causal one is needed, and PyTorch may take its
    fastest attention.

    Args:
      hparams: hyperparameters of which the sizes and dropout are used.
      vocab_size: ids of the shared vocabulary.
      length: tokens of a sentence.
    """

    def __init__(self, hparams, vocab_size: int, length: int):
        super().__init__()
        width = hparams.d_model
        sizes = dict(
            d_model=width,
            nhead=hparams.num_heads,
            dim_feedforward=hparams.d_ff,
            dropout=hparams.dropout,
            batch_first=True,
        )
        layers = hparams.num_layers
        self.embedding = nn.Embedding(vocab_size, width)
        nn.init.normal_(self.embedding.weight, std=width**-0.5)
        self.encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(**sizes), layers, enable_nested_tensor=False
        )
        self.decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(**sizes), layers)
        for layer in [*self.encoder.layers, *self.decoder.layers]:
            # The paper drops what sub-layers return, nothing within.
            layer.dropout.p = layer.self_attn.dropout = 0.0
        for layer in self.decoder.layers:
            layer.multihead_attn.dropout = 0.0
        self.dropout = nn.Dropout(hparams.dropout)
        angles = np.arange(length)[:, None] / 10_000 ** (np.arange(0, width, 2) / width)
        signal = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
        self.register_buffer("signal", torch.from_numpy(signal.astype(np.float32)))
        causal = nn.Transformer.generate_square_subsequent_mask(length)
        self.register_buffer("causal", causal)

    def embedded(self, ids):
        """Returns [sentences, length, d_model] of ids [sentences, length]."""
        scale = self.signal.shape[1] ** 0.5
        return self.dropout(self.embedding(ids) * scale + self.signal)

    def forward(self, source, target):
        """Returns logits [sentences, length, vocabulary]; the decoder reads `target` one late."""
        before = functional.pad(target[:, :-1], (1, 0))
        hidden = self.decoder(
            self.embedded(before),
            self.encoder(self.embedded(source)),
            tgt_mask=self.causal,
            tgt_is_causal=True,
        )
        return hidden @ self.embedding.weight.T


def make_step(hparams, vocab_size: int, ids: np.ndarray):
    """Returns the engine's name, the device's, and what does one step and returns its loss.

    Args:
      hparams: hyperparameters.
      vocab_size: ids of the shared vocabulary.
      ids: [microbatches, sentences, length], of source and target.
    """
    torch.manual_seed(1)
    # In float32, TensorFlow and JAX round to TF32 on such GPUs unless told otherwise.
    torch.set_float32_matmul_precision("high")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = TorchTransformer(hparams, vocab_size, ids.shape[2]).to(device)
    adam = torch.optim.Adam(
        model.parameters(),
        lr=1e-4,
        betas=(hparams.adam_beta1, hparams.adam_beta2),
        eps=hparams.adam_epsilon,
        fused=True,
    )
    parts = [torch.from_numpy(part).long().to(device) for part in ids]
    half = {"bfloat16": torch.bfloat16, "float16": torch.float16}.get(hparams.compute_dtype)

    @torch.compile(dynamic=False)
    def loss_of(part):
        with torch.autocast(device, half, enabled=half is not None):
            logits = model(part, part)
            return functional.cross_entropy(
                logits.flatten(0, 1), part.flatten(), label_smoothing=hparams.label_smoothing
            )

    def step():
        adam.zero_grad(set_to_none=True)
        total = 0.0
        for part in parts:
            loss = loss_of(part) / len(parts)
            loss.backward()
            total += loss.detach()
        adam.step()
        return total

    name = torch.cuda.get_device_name() if device == "cuda" else device
    return f"PyTorch {torch.__version__}, torch.compile", name, step
