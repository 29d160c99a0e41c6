import keras
import numpy as np
import pytest
import tensorflow as tf
from refusals import refused

from t2t_keras import hyperparameters, registry
from t2t_keras.layers.base import layout_of
from t2t_keras.models.transformer import Transformer


def test_logits_and_memory_are_the_paper_s(variant_model, make_reference, batch, pairs):
    # The reference reads each pair alone and without padding, so padding and neighbours have no
    # influence either.
    reference = make_reference(variant_model)
    logits, (memory, mask) = variant_model(batch).numpy(), variant_model.encode(batch["source"])
    packed = variant_model(batch, packed=True)
    assert logits.shape == (3, 6, 11)
    np.testing.assert_array_equal(mask, batch["source"] != 0)
    expected = [reference.logits(source, target) for source, target in pairs]
    np.testing.assert_allclose(packed, np.concatenate(expected), rtol=0, atol=1e-5)
    for row, (source, target) in enumerate(pairs):
        assert np.abs(expected[row]).max() > 1
        np.testing.assert_allclose(logits[row, : len(target)], expected[row], rtol=0, atol=1e-5)
        encoded = reference.encode(source)
        np.testing.assert_allclose(memory[row, : len(source)], encoded, rtol=0, atol=1e-5)


def test_attention_weights_are_the_paper_s(variant_model, make_reference, batch, pairs):
    actual, reference = variant_model.attention_weights(batch), make_reference(variant_model)
    attentions = {
        "encoder": ("encoder", "self_attention", 0, 0),
        "decoder": ("decoder", "self_attention", 1, 1),
        "cross": ("decoder", "memory_attention", 1, 0),
    }
    for row, pair in enumerate(pairs):
        reference.logits(*pair)
        for kind, (side, attention, queries, keys) in attentions.items():
            for i, layer in enumerate(actual[kind][row].numpy()):
                expected = reference.attention_weights[f"{side}_{i}/{attention}"]
                real = layer[:, : len(pair[queries])]
                np.testing.assert_allclose(real[..., : len(pair[keys])], expected, atol=1e-5)
                assert np.abs(real[..., len(pair[keys]) :]).max(initial=0) == 0


def test_attention_weights_where_padding_is_left_out(model, batch):
    layouts = [layout_of(batch[side], ragged=True) for side in ("target", "source")]
    scores = dict(return_attention_scores=True)
    memory, mask, _ = model.encode(batch["source"], layouts[1], **scores)
    _, _, cross = model.decode(batch["target"], memory, mask, *layouts, **scores)
    expected = model.attention_weights(batch)["cross"][:, 1].numpy()
    real = batch["target"] != 0
    actual = cross[1].numpy()
    np.testing.assert_allclose(
        actual.transpose(0, 2, 1, 3)[real], expected.transpose(0, 2, 1, 3)[real], atol=1e-6
    )


@pytest.mark.parametrize("packed", [False, True])
def test_an_empty_source_gives_numbers(model, batch, packed):
    # On a replica without examples, one row of padding stands for them.
    empty = {side: np.zeros((2, 3), np.int32) for side in batch}
    with tf.GradientTape() as tape:
        logits = model(empty, packed=packed)
        total = tf.reduce_sum(logits)
    assert len(logits) > 0
    assert np.isfinite(logits).all()
    for gradient in tape.gradient(total, [v.value for v in model.trainable_variables]):
        assert gradient is None or np.isfinite(tf.convert_to_tensor(gradient)).all()


def test_dropout_acts_in_training_only(make_model, batch):
    model = make_model(dropout=0.5, attention_dropout=0.5, relu_dropout=0.5)
    np.testing.assert_allclose(model(batch).numpy(), make_model()(batch).numpy(), atol=1e-6)
    first, second = (model(batch, training=True).numpy() for _ in range(2))
    assert np.abs(first - second).max() > 1e-2


@pytest.mark.parametrize("feed_forward", ["feed_forward", "parameter_attention"])
def test_dropout_is_where_the_paper_has_it(make_model, feed_forward):
    # Section 5.4: each sub-layer's output (5 in a pair of layers) and both sums of embeddings and
    # positions; attention weights (3) and the feed-forward's inner units, or the weights of an
    # attention over parameters (2), beside it, 0 in the paper.
    rates = dict(dropout=0.25, attention_dropout=0.125, relu_dropout=0.0625)
    model = make_model(num_layers=1, feed_forward=feed_forward, **rates)
    layers = [x for x in model._flatten_layers() if isinstance(x, keras.layers.Dropout)]
    assert sorted(layer.rate for layer in layers) == [0.0625] * 2 + [0.125] * 3 + [0.25] * 6
    calls = []
    for layer in layers:
        layer.call = lambda x, layer=layer, **_: calls.append(layer.rate) or x
    model({"source": np.ones((1, 2)), "target": np.ones((1, 2))}, training=True)
    assert sorted(calls) == [0.0625] * 2 + [0.125] * 3 + [0.25] * 7


@pytest.mark.parametrize(
    "options",
    [
        {},
        dict(
            positions="learned",
            max_positions=500,
            feed_forward="parameter_attention",
            parameter_attention_heads=4,
        ),
    ],
)
def test_initial_weights(options):
    sizes = dict(num_layers=1, d_model=32, d_ff=64, num_heads=2, d_k=12, d_v=20)
    model = Transformer(500, **sizes, **options)
    model.build()
    for variable in model.trainable_variables:
        values = variable.numpy()
        name = variable.path.removesuffix("/kernel").rpartition("/")[2]
        if name in ("embeddings", "table", "keys", "values"):
            # N(0, d_model^-0.5), as in tensor2tensor; 3,000 draws or more.
            assert abs(values.mean()) < 0.015
            assert values.std() == pytest.approx(32**-0.5, rel=0.06)
            assert (np.abs(values) > 2 * 32**-0.5).mean() == pytest.approx(0.0455, abs=0.02)
        elif values.ndim == 2:
            # Glorot uniform, over the width of all heads side by side; W^Q, W^K and W^V together,
            # but for the queries of an attention over parameters, which have no W^K beside them.
            together = values.shape[1]
            if "attention" in variable.path and name != "output":
                together = 2 * 12 * 2 + 20 * 2
            limit = (6 / (values.shape[0] + together)) ** 0.5
            assert 0.97 * limit < np.abs(values).max() <= limit
            assert values.std() == pytest.approx(limit / 3**0.5, rel=0.1)
        else:
            assert (values == (1 if name == "gamma" else 0)).all()


def test_a_model_of_a_user_s_need_not_know_of_two_vocabularies():
    class Own(Transformer):
        def __init__(self, vocab_size, config=None, **kwargs):
            super().__init__(vocab_size, config, **kwargs)

    hparams = hyperparameters.hparams("transformer_tiny", "d_model=8,num_layers=1")
    assert Own.from_hparams(hparams, 13).vocab_size == 13


@pytest.mark.parametrize(
    ("changes", "code", "names"),
    [
        (dict(start_id=11), "bad_value", ["start_id=11", " 11."]),
        (dict(source_vocab_size=14), "conflicting_settings", ["share_embeddings=all"]),
        (dict(positions="rotary"), "bad_size", ["rotary", "d_k", 5]),
    ],
)
def test_what_does_not_fit_together_is_named(make_model, changes, code, names):
    with refused(code, *names):
        make_model(**changes)


def test_from_hparams():
    changes = dict(num_layers=3, d_model=10, d_ff=7, num_heads=2, d_k=3, dropout=0.2)
    changes |= dict(attention_dropout=0.3, compute_dtype="bfloat16")
    model = Transformer.from_hparams(hyperparameters.hparams("transformer_tiny", changes), 13)
    assert model.dtype_policy.name == "mixed_bfloat16"
    hparams = hyperparameters.hparams("transformer_tiny", changes)
    assert Transformer.from_hparams(hparams, 13, "bfloat16").dtype_policy.name == "bfloat16"
    del changes["compute_dtype"]
    config = model.get_config()
    assert {name: config[name] for name in changes} == changes
    assert (model.config.head_widths(model.config.d_model), config["vocab_size"], model.built) == (
        (3, 5),
        13,
        True,
    )
    assert registry.MODELS["transformer"] is Transformer


def test_saved_and_loaded(model, batch, tmp_path):
    inputs = {side: keras.Input((None,), dtype="int32", name=side) for side in batch}
    logits = model(inputs)
    assert logits.shape == model.compute_output_shape(dict.fromkeys(batch, (None, None)))
    assert model.compute_output_shape({"source": (2, 3), "target": (2, 5)}) == (2, 5, 11)
    whole = keras.Model(inputs, keras.layers.Softmax()(logits))
    whole.save(tmp_path / "whole.keras")
    loaded = keras.models.load_model(tmp_path / "whole.keras")
    np.testing.assert_allclose(loaded(batch), keras.ops.softmax(model(batch)), atol=1e-6)
    copy = loaded.get_layer("transformer")
    assert isinstance(copy, Transformer)
    assert copy.get_config() == model.get_config()
    ours, theirs = (
        [(v.path, v.shape) for v in network.trainable_variables] for network in (copy, model)
    )
    assert ours == theirs
    # Source, target and softmax share one matrix (section 3.4).
    assert [path for path, shape in ours if 11 in shape] == [
        "transformer/embedding/table/embeddings"
    ]
    np.testing.assert_array_equal(copy(batch).numpy(), model(batch).numpy())


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_mixed_precision(make_model, model, batch, policy):
    mixed = make_model(dtype=policy)
    assert {v.dtype for v in mixed.trainable_variables} == {"float32"}
    memory, _ = mixed.encode(batch["source"])
    assert memory.dtype.name == policy.removeprefix("mixed_")
    logits = mixed(batch)
    assert logits.dtype == "float32"
    real = batch["target"] != 0
    difference = np.abs(logits.numpy() - model(batch).numpy())[real]
    assert 1e-5 < difference.max() < 0.2
    graph = tf.function(lambda: mixed(batch)).get_concrete_function().graph
    products = [operation for operation in graph.get_operations() if "MatMul" in operation.type]
    assert {product.outputs[0].dtype.name for product in products} == {
        policy.removeprefix("mixed_")
    }


def test_an_end_that_is_not_read_is_as_if_it_were_not_there(make_model, batch):
    model, other = make_model(), make_model(source_end=False)
    source = np.where(batch["source"] == 1, 2, batch["source"])
    with_end = np.pad(source, [[0, 0], [0, 1]])
    with_end[np.arange(len(source)), np.count_nonzero(source, axis=1)] = 1
    expected = model({**batch, "source": source}).numpy()
    actual = other({**batch, "source": with_end}).numpy()
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-5)
    packed = other({**batch, "source": with_end}, packed=True).numpy()
    np.testing.assert_allclose(packed, expected[batch["target"] != 0], rtol=0, atol=1e-5)
    alone = {"source": np.array([[1, 0]]), "target": batch["target"][:1]}
    np.testing.assert_allclose(other(alone), model(alone), rtol=0, atol=1e-5)
