"""Plain PyTorch: `torch.nn.Transformer`, training only. Option: compile."""

import torch
import torch_steps
import workload
from torch import nn


class _Model(nn.Module):
    def __init__(self, size: workload.Size):
        super().__init__()
        self.embedding = nn.Embedding(size.vocab_size, size.d_model)
        nn.init.normal_(self.embedding.weight, std=size.d_model**-0.5)
        self.dropout, stacks = nn.Dropout(workload.DROPOUT), [size.num_layers] * 2
        sizes = (size.d_model, size.num_heads, *stacks, size.d_ff, workload.DROPOUT)
        self.transformer = nn.Transformer(*sizes, batch_first=True)
        self.transformer.encoder.norm = self.transformer.decoder.norm = None
        for name, module in self.transformer.named_modules():
            if isinstance(module, nn.MultiheadAttention):
                module.dropout = 0.0
            elif name.endswith(".dropout"):  # inside the feed-forward network
                module.p = 0.0
        angles = torch.arange(64)[:, None] / 10_000 ** torch.linspace(0, 1, size.d_model // 2)
        self.register_buffer("positions", torch.cat([angles.sin(), angles.cos()], 1))

    def embed(self, ids):
        scaled = self.embedding(ids) * self.embedding.embedding_dim**0.5
        return self.dropout(scaled + self.positions[: ids.shape[1]])

    def forward(self, source, target_input):
        is_padding = source == workload.PADDING
        masks = dict(src_key_padding_mask=is_padding, memory_key_padding_mask=is_padding)
        causal = nn.Transformer.generate_square_subsequent_mask(target_input.shape[1])
        sides = self.embed(source), self.embed(target_input)
        outputs = self.transformer(*sides, tgt_mask=causal, tgt_is_causal=True, **masks)
        return outputs @ self.embedding.weight.T


args = workload.arguments("compile")
model = _Model(args.size)
torch_steps.run(args, model, torch_steps.loss_of_logits(model))
