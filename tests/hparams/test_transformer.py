import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras import registry
from t2t_keras.hyperparameters import HParams
from t2t_keras.models.transformer import Transformer

# Table 3 and sections 5.1, 5.3 and 5.4 of the paper, spelled out.
BASE = dict(num_layers=6, d_model=512, d_ff=2048, num_heads=8, dropout=0.1, label_smoothing=0.1)
BASE |= dict(train_steps=100_000, batch_tokens=25_000, warmup_steps=4000, learning_rate=1.0)
BASE |= dict(adam_beta1=0.9, adam_beta2=0.98, adam_epsilon=1e-9)
BASE |= dict(attention_dropout=0.0, symbol_dropout=0.0, clip_norm=0.0)
BIG = BASE | dict(d_model=1024, d_ff=4096, num_heads=16, dropout=0.3, train_steps=300_000)


def count_weights(hparams, vocab_size):
    # In a graph the weights have shapes but no memory.
    with tf.Graph().as_default():
        model = Transformer.from_hparams(hparams, vocab_size)
        return sum(int(np.prod(weight.shape)) for weight in model.trainable_variables)


@pytest.mark.parametrize(
    ("name", "values", "weights"),
    [("transformer_base", BASE, 63_045_632), ("transformer_big", BIG, 214_171_648)],
)
def test_sets_mean_the_paper_s(name, values, weights):
    hparams = registry.hparams(name)
    assert {key: getattr(hparams, key) for key in values} == values
    assert hparams.head_widths() == (64, 64)
    assert count_weights(hparams, 37_000) == weights


def test_where_the_weights_are():
    # Rows B and C of Table 3 change d_k, N and d_ff.
    changes = dict(num_layers=2, d_k=16, d_v=32, d_ff=1024)
    attention = 512 * 8 * (16 + 16 + 32 + 32)
    feed_forward = 512 * 1024 + 1024 + 1024 * 512 + 512
    normalisation = 2 * 512
    encoder_layer = attention + feed_forward + 2 * normalisation
    decoder_layer = 2 * attention + feed_forward + 3 * normalisation
    expected = 1000 * 512 + 2 * (encoder_layer + decoder_layer)
    assert count_weights(registry.hparams("transformer_base", changes), 1000) == expected


@pytest.mark.parametrize("name", ["transformer_small", "transformer_tiny"])
def test_small_sets_are_the_base_but_smaller(name):
    hparams, base = registry.hparams(name), registry.hparams("transformer_base")
    changed = {
        field.name
        for field in dataclasses.fields(HParams)
        if getattr(hparams, field.name) != getattr(base, field.name)
    }
    assert changed == {"num_layers", "d_model", "d_ff", "num_heads", "batch_tokens"}
    for smaller in changed:
        assert getattr(hparams, smaller) < getattr(base, smaller)
    assert hparams.d_ff == 4 * hparams.d_model
    assert hparams.num_heads * hparams.head_widths()[0] == hparams.d_model
