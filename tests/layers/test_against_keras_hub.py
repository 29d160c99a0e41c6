"""The layers against KerasHub's, an implementation that shares no code with ours."""

import numpy as np
import pytest

from t2t_keras.layers import DecoderLayer, EncoderLayer

HEADS, D_K, D_MODEL, D_FF = 2, 4, 8, 16


@pytest.fixture(scope="module")
def keras_hub_layers():
    """KerasHub's layers; the import takes seconds."""
    return pytest.importorskip("keras_hub").layers


def copy_weights(ours, theirs, attentions, norms):
    """Gives KerasHub's layer the weights of ours; its attention splits heads into an axis."""
    for mine, other in attentions:
        for name in ("query", "key", "value"):
            weight = getattr(mine, f"{name}_projection").numpy()
            getattr(other, f"_{name}_dense").kernel.assign(weight.reshape(D_MODEL, HEADS, D_K))
        output = mine.output_projection.numpy()
        other._output_dense.kernel.assign(output.reshape(HEADS, D_K, D_MODEL))
    inner, outer = ours.feed_forward.inner, ours.feed_forward.outer
    for mine, other in (
        (inner, theirs._feedforward_intermediate_dense),
        (outer, theirs._feedforward_output_dense),
        *norms,
    ):
        for weight, same in zip(mine.trainable_variables, other.trainable_variables, strict=True):
            same.assign(weight.numpy())


@pytest.mark.parametrize("kind", ["encoder", "decoder"])
def test_layer(keras_hub_layers, random, randomised, kind):
    source = random.normal(size=(3, 5, D_MODEL)).astype(np.float32)
    target = random.normal(size=(3, 4, D_MODEL)).astype(np.float32)
    mask = np.arange(5) < [[5], [3], [1]]
    sizes = dict(num_heads=HEADS, d_k=D_K, d_ff=D_FF)
    if kind == "encoder":
        ours, inputs, masks = EncoderLayer(**sizes), [source], dict(mask=mask)
        theirs = keras_hub_layers.TransformerEncoder(D_FF, HEADS, layer_norm_epsilon=1e-6)
        theirs_masks = dict(padding_mask=mask)
    else:
        ours, inputs, masks = DecoderLayer(**sizes), [target, source], dict(memory_mask=mask)
        theirs = keras_hub_layers.TransformerDecoder(D_FF, HEADS, layer_norm_epsilon=1e-6)
        theirs_masks = dict(encoder_padding_mask=mask)
    ours(*inputs)
    theirs(*inputs)
    randomised(ours)
    attentions = [(ours.self_attention, theirs._self_attention_layer)]
    norms = [theirs._self_attention_layer_norm, theirs._feedforward_layer_norm]
    if kind == "decoder":
        attentions.append((ours.memory_attention, theirs._cross_attention_layer))
        norms.insert(1, theirs._cross_attention_layer_norm)
    residuals = [getattr(ours, f"residual_{number + 1}").norm for number in range(len(norms))]
    copy_weights(ours, theirs, attentions, zip(residuals, norms, strict=True))
    found, expected = ours(*inputs, **masks).numpy(), np.asarray(theirs(*inputs, **theirs_masks))
    real = mask if kind == "encoder" else slice(None)
    np.testing.assert_allclose(found[real], expected[real], atol=1e-5)
