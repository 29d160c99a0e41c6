"""The model that a profile is of: its flags, and the matrix products of its training step."""

from absl import flags

HPARAMS_SET = flags.DEFINE_string("hparams_set", "transformer_base", "Hyperparameter set.")
_HPARAMS = flags.DEFINE_string("hparams", "", "Hyperparameters to change in the set.")
VOCAB_SIZE = flags.DEFINE_integer("vocab_size", 32_000, "Ids of the shared vocabulary.")


def hparams():
    """Returns the hyperparameters that the flags name."""
    from t2t_keras import registry

    return registry.hparams(HPARAMS_SET.value, _HPARAMS.value)


def random_ids(*shape: int):
    """Returns random ids of ordinary pieces."""
    import numpy as np

    return np.random.default_rng(0).integers(3, VOCAB_SIZE.value, shape, np.int32)


def product_shapes(hparams, vocab_size: int, sentences: int, length: int) -> list[tuple]:
    """Returns (how many, (batch, m, k, n)) of the forward pass's products [m, k] x [k, n]."""
    tokens, width, heads = sentences * length, hparams.d_model, hparams.num_heads
    d_k, d_v = hparams.head_widths()
    attentions, layers = 3 * hparams.num_layers, 2 * hparams.num_layers
    return [
        (2 * attentions, (1, tokens, width, heads * d_k)),
        (attentions, (1, tokens, width, heads * d_v)),
        (attentions, (1, tokens, heads * d_v, width)),
        (attentions, (sentences * heads, length, d_k, length)),
        (attentions, (sentences * heads, length, length, d_v)),
        (layers, (1, tokens, width, hparams.d_ff)),
        (layers, (1, tokens, hparams.d_ff, width)),
        (1, (1, tokens, width, vocab_size)),
    ]


def step_operations(shapes: list[tuple]) -> int:
    """Returns multiplications and additions of these products and of those of their gradients."""
    return sum(count * 3 * 2 * b * m * k * n for count, (b, m, k, n) in shapes)
