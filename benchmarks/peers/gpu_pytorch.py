"""A plain Transformer in PyTorch; benchmarks/gpu.py starts this.

The sub-layers are the paper's (post-norm), with fused projections, scaled_dot_product_attention,
autocast to bfloat16 over float32 weights, fused Adam and torch.compile.
"""

import torch
import workload
from torch import nn
from torch.nn import functional


class _Attention(nn.Module):
    def __init__(self, width: int, heads: int, products: tuple[int, ...]):
        super().__init__()
        # One product of x for all three, or one of x and one of the memory.
        self.inputs = nn.ModuleList(nn.Linear(width, n * width, bias=False) for n in products)
        self.heads, self.output = heads, nn.Linear(width, width, bias=False)

    def forward(self, *states, **mask):
        sums = (linear(x) for linear, x in zip(self.inputs, states, strict=True))
        parts = (part for y in sums for part in y.split(self.output.in_features, -1))
        heads = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        outputs = functional.scaled_dot_product_attention(*heads, **mask)
        return self.output(outputs.transpose(1, 2).flatten(2))


class _Layer(nn.Module):
    def __init__(self, size: workload.Size, dropout: float, has_memory: bool):
        super().__init__()
        width, products, self.dropout = size.d_model, ((3,), (1, 2)), nn.Dropout(dropout)
        attentions = (_Attention(width, size.num_heads, n) for n in products[: 1 + has_memory])
        self.attentions = nn.ModuleList(attentions)
        self.inner, self.outer = nn.Linear(width, size.d_ff), nn.Linear(size.d_ff, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 + has_memory))

    def forward(self, x, mask, *memory, **own_mask):
        """Takes the mask of the source, and in the decoder the memory and the other mask."""
        x = self.norms[0](x + self.dropout(self.attentions[0](x, **own_mask or mask)))
        if memory:
            x = self.norms[1](x + self.dropout(self.attentions[1](x, *memory, **mask)))
        return self.norms[-1](x + self.dropout(self.outer(self.inner(x).relu())))


class _Transformer(nn.Module):
    def __init__(self, size: workload.Size, dropout: float, positions: int):
        super().__init__()
        self.embedding, self.scale = nn.Embedding(size.vocab_size, size.d_model), size.d_model**0.5
        nn.init.normal_(self.embedding.weight, std=size.d_model**-0.5)
        stacks = ([_Layer(size, dropout, has) for _ in range(size.num_layers)] for has in (0, 1))
        (self.encoder, self.decoder), self.dropout = map(nn.ModuleList, stacks), nn.Dropout(dropout)
        rates = 10_000 ** -torch.linspace(0, 1, size.d_model // 2)
        angles = torch.arange(positions)[:, None] * rates
        self.register_buffer("positions", torch.cat([angles.sin(), angles.cos()], 1))

    def forward(self, source, target, has_padding: bool):
        is_token = (source != workload.PADDING)[:, None, None] if has_padding else None
        x, mask = self.embed(self.embedding(source)), dict(attn_mask=is_token)
        for layer in self.encoder:
            x = layer(x, mask)
        # The first input is zero.
        y = self.embed(functional.pad(self.embedding(target)[:, :-1], (0, 0, 1, 0)))
        for layer in self.decoder:
            y = layer(y, mask, x, is_causal=True)
        logits = functional.linear(y, self.embedding.weight).flatten(0, 1)
        options = dict(ignore_index=workload.PADDING, label_smoothing=workload.LABEL_SMOOTHING)
        return functional.cross_entropy(logits, target.flatten(), **options)

    def embed(self, x):
        return self.dropout(x * self.scale + self.positions[: x.shape[1]])


settings, batches = workload.work_of_parent()
on_gpu, has_padding = torch.cuda.is_available(), settings["has_padding"]
device = torch.device("cuda" if on_gpu else "cpu")
torch.manual_seed(1)
torch.set_float32_matmul_precision("high")
longest = max(ids.shape[1] for batch in batches for ids in batch.values())
model = _Transformer(settings["size"], settings["dropout"], longest).to(device)
# Batches of real text differ in shape; this compiles once for all of them.
compiled = torch.compile(model, dynamic=has_padding)
betas, epsilon = (workload.BETA_1, workload.BETA_2), workload.EPSILON
adam = torch.optim.Adam(model.parameters(), workload.LEARNING_RATE, betas, epsilon, fused=True)


def _update(sides: list[torch.Tensor]) -> torch.Tensor:
    ids = (side.to(device, non_blocking=True).long() for side in sides)
    with torch.autocast(device.type, torch.bfloat16):
        loss = compiled(*ids, has_padding)
    loss.backward()
    adam.step()
    adam.zero_grad()
    return loss.detach()


name = torch.cuda.get_device_name() if on_gpu else "CPU"
peak_bytes = torch.cuda.max_memory_allocated if on_gpu else int
tensors = [list(map(torch.from_numpy, batch.values())) for batch in batches]
if on_gpu:
    tensors = [[side.pin_memory() for side in sides] for sides in tensors]
workload.answer_parent(tensors, _update, lambda: (name, peak_bytes()))
