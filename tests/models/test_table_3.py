"""The model of every registered set against NumPy.

Widths are divided by 16 (d_ff by 64), which keeps the proportions of the rows of Table 3. Most have
one layer, rows (C) up to three. Sets that then differ only in widths or in training share a model.
"""

import numpy as np
import pytest

from t2t_keras import registry
from t2t_keras.models.transformer import Transformer

# What the reference needs to know of a set, besides its weights.
STRUCTURE = ("num_layers", "num_heads", "self_attention_radius", "learned_positions")
STRUCTURE += ("parameter_attention_heads", "pre_norm")


def scaled(name, **changes):
    hparams = registry.hparams(name)
    small = dict(
        d_model=hparams.d_model // 16,
        d_ff=hparams.d_ff // 64,
        d_k=hparams.d_k // 16,
        d_v=hparams.d_v // 16,
        num_layers=1 if hparams.num_layers == 6 else min(hparams.num_layers, 3),
        # Fewer than the tokens of the longest sentence.
        learned_positions=min(hparams.learned_positions, 12),
    )
    return registry.hparams(name, small | changes)


MODELS = {}
for name in registry.HPARAMS_SETS.load():
    hparams = scaled(name)
    structure = hparams.d_k > 0, *(getattr(hparams, each) for each in STRUCTURE)
    MODELS.setdefault(structure, (name, hparams))
RUNS = dict(MODELS.values()) | {"restricted": scaled("transformer_base", self_attention_radius=2)}


@pytest.mark.parametrize("hparams", RUNS.values(), ids=RUNS)
def test_logits_are_the_paper_s(hparams, numpy_transformer, weights_of):
    model = Transformer.from_hparams(hparams, vocab_size=13)
    random = np.random.default_rng(0)
    for weight in model.trainable_variables:
        weight.assign(weight.numpy() + random.normal(0, 0.2, weight.shape))
    # Longer than a block of restricted attention.
    source, target = random.integers(3, 13, 18), random.integers(3, 13, 20)
    structure = {name: getattr(hparams, name) for name in STRUCTURE}
    reference = numpy_transformer.NumpyTransformer(weights_of(model), **structure)
    expected = reference.logits(source, target)
    assert np.abs(expected).max() > 1
    logits = model({"source": source[None], "target": target[None]}).numpy()[0]
    np.testing.assert_allclose(logits, expected, rtol=0, atol=1e-5)
