"""JoeyNMT: its model and its loss, training only; its beam search has no cache."""

import logging
import types

import torch_steps
import workload

logging.disable(logging.CRITICAL)
from joeynmt.model import build_model  # noqa: E402
from joeynmt.transformer_layers import MultiHeadedAttention, PositionwiseFeedForward  # noqa: E402


class _Vocabulary(types.SimpleNamespace):
    pad_index, eos_index, unk_index, bos_index = range(4)
    sep_index, specials, lang_tags = None, ["<pad>", "</s>", "<unk>", "<s>"], []

    def __len__(self):
        return self.size

    def lookup(self, token):
        return self.specials.index(token)


args = workload.arguments()
size, stack = args.size, dict(type="transformer", layer_norm="post", dropout=workload.DROPOUT)
stack |= dict(num_layers=size.num_layers, num_heads=size.num_heads)
stack |= dict(hidden_size=size.d_model, ff_size=size.d_ff)
stack["embeddings"] = dict(embedding_dim=size.d_model, scale=True, dropout=workload.DROPOUT)
config = dict(encoder=stack, decoder=stack, tied_embeddings=True, tied_softmax=True)
config |= dict(embed_initializer="normal", embed_init_weight=size.d_model**-0.5)
config["initializer"] = "xavier_uniform"
model = build_model(config, *[_Vocabulary(size=size.vocab_size)] * 2)
model.loss_function = "crossentropy", workload.LABEL_SMOOTHING
for module in model.modules():
    if isinstance(module, MultiHeadedAttention):
        module.dropout.p = 0.0
    elif isinstance(module, PositionwiseFeedForward):
        module.pwff_layer[2].p = 0.0


def _loss(source, target_input, target):
    mask, is_token = source != workload.PADDING, target != workload.PADDING
    sources = dict(src=source, src_mask=mask[:, None], src_length=mask.sum(1))
    targets = dict(trg_input=target_input, trg=target, trg_mask=is_token[:, None])
    return model(return_type="loss", **sources, **targets)[0] / is_token.sum()


torch_steps.run(args, model, _loss)
