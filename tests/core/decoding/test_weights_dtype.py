import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.decoding.batching import padded
from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.translator import Translator
from t2t_keras.models.transformer import Transformer

LINES = ["the small dog sleeps", "a man sees the tree", "red red house"]


def half_precision(model, dtype):
    half = Transformer.from_config(model.get_config() | dict(dtype=dtype))
    half.build()
    half.set_weights(model.get_weights())
    return half


@pytest.mark.parametrize("dtype", ["bfloat16", "mixed_bfloat16", "mixed_float16"])
def test_attention_is_that_of_float32_but_for_rounding(model, dtype, tokenizer):
    pair = {
        "source": padded(tokenizer.encode(LINES)),
        "target": padded(tokenizer.encode([" ".join(line.split()[::-1]) for line in LINES])),
    }
    expected = model.attention_weights(pair)
    for kind, weights in half_precision(model, dtype).attention_weights(pair).items():
        assert weights.dtype == tf.float32
        real = pair["source" if kind == "encoder" else "target"] != 0
        found, exact = (
            each.numpy().transpose(0, 3, 1, 2, 4)[real] for each in (weights, expected[kind])
        )
        np.testing.assert_allclose(found, exact, atol=0.1)


@pytest.mark.parametrize("dtype", ["bfloat16", "mixed_float16"])
def test_scores_with_coverage_are_those_of_float32_but_for_rounding(model, tokenizer, dtype):
    def scores(model, beta=0.5):
        config = DecodeConfig(beam_size=2, alpha=0.0, extra_length=2, coverage_penalty=beta)
        return np.array(
            [each.score for each in Translator(model, tokenizer, config).translate(LINES)]
        )

    exact = scores(model)
    assert (exact < scores(model, beta=0.0) - 0.3).all(), "it costs more than rounding"
    rounded = scores(half_precision(model, dtype))
    np.testing.assert_allclose(rounded, exact, rtol=0.05, atol=0.1)
    assert not np.allclose(rounded, exact, rtol=1e-6), "it was rounded"


def test_no_weight_is_cast_at_a_step(model, tokenizer):
    rounded = half_precision(model, "bfloat16")
    translator = Translator(rounded, tokenizer, DecodeConfig(extra_length=4))
    translator.translate(LINES)
    shapes = {tuple(each.shape) for each in rounded.trainable_variables if len(each.shape) > 1}
    graph = translator.search.graph.get_concrete_function().graph.as_graph_def(add_shapes=True)
    nodes = [node for function in graph.library.function for node in function.node_def]
    products = [node for node in nodes if node.op in ("MatMul", "BatchMatMulV2")]
    assert {node.attr["T"].type for node in products} == {tf.bfloat16.as_datatype_enum}
    for node in (node for node in nodes if node.op == "Cast"):
        shape = tf.TensorShape(node.attr["_output_shapes"].list.shape[0])
        assert shape.rank != 2 or tuple(shape) not in shapes, node.name
