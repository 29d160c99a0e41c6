"""Search and scoring, with kept keys and values, against the whole model without them."""

import numpy as np
import pytest
import tensorflow as tf
from table_search import plain_beam_search

from t2t_keras.decoding.batching import padded
from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.translator import Translator

VOCAB_SIZE = 6
ALPHA = 2.0  # Long outputs win.
EXTRA_LENGTH = 7  # More than one block of the search.
SOURCES = [[3, 5, 4, 2, 1], [5, 1], [4, 4, 1]]
# Outputs are longer than the radius, and have more symbols than there are learned positions.
# Several layers, as the paper's has, take longer, and no option concerns what is between them.
KINDS = {
    "the paper's": dict(num_layers=2),
    "restricted and rotary": dict(self_attention_radius=1, positions="rotary", start_id=3, seed=1),
    "every option": dict(
        self_attention_radius=2,
        positions="learned",
        max_positions=3,
        feed_forward="parameter_attention",
        parameter_attention_heads=2,
        pre_norm=True,
        attention_bias=True,
        softmax_bias=True,
        embedding_norm=True,
        first_position=1,
        share_embeddings="none",
        source_end=False,
        seed=1,
    ),
}


@pytest.fixture
def make_model(random_model):
    """make_model(seed, **options): of one layer, unless said otherwise."""
    return lambda seed=0, **options: random_model(seed, VOCAB_SIZE, **dict(num_layers=1) | options)


def whole(*models):
    """log_probs(source, target): float64 [target length, V], the mean of the models."""
    logits = [
        tf.function(
            lambda source, target, model=model: model({"source": source, "target": target}),
            input_signature=[tf.TensorSpec([1, None], tf.int32)] * 2,
        )
        for model in models
    ]

    def log_probs(source, target):
        pair = np.array([source], np.int32), np.array([target], np.int32)
        found = [tf.nn.softmax(tf.cast(each(*pair)[0], tf.float64)).numpy() for each in logits]
        return np.log(np.mean(found, axis=0))

    return log_probs


@pytest.mark.parametrize(
    ("kind", "beam_size"), [("the paper's", 1), *((kind, 3) for kind in [*KINDS, "ensemble"])]
)
def test_search_and_score(make_model, kind, beam_size):
    models = [make_model(**KINDS.get(kind, {}))]
    if kind == "ensemble":
        models.append(make_model(1, positions="learned", max_positions=4))
    log_probs = whole(*models)
    config = DecodeConfig(beam_size=beam_size, alpha=ALPHA, extra_length=EXTRA_LENGTH)
    translator = Translator(models, None, config)
    ids, scores = (found.numpy()[:, 0] for found in translator.search(padded(SOURCES)))
    outputs = [row[row != 0] for row in ids]
    for source, found, score in zip(SOURCES, outputs, scores, strict=True):
        # What the last target is does not matter: its logits have not seen it.
        expected, expected_score = plain_beam_search(
            lambda prefix, source=source: log_probs(source, [*prefix, 1])[-1],
            len(source) + EXTRA_LENGTH,
            ALPHA,
            beam_size,
        )[0]
        assert tuple(found.tolist()) == expected
        assert score == pytest.approx(expected_score, abs=1e-4)
    assert max(map(len, outputs)) > 8
    if beam_size == 1:  # Scores do not depend on it.
        return
    arrays = [np.array(source, np.int32) for source in SOURCES]
    for number, found in translator.engine.log_probs(arrays, outputs):
        expected = log_probs(SOURCES[number], outputs[number])
        each = expected[np.arange(len(found)), outputs[number]]
        np.testing.assert_allclose(found, each, atol=1e-4)


@pytest.mark.parametrize("settings", [dict(beam_size=2), dict(samples=3, seed=2)], ids=str)
def test_what_is_not_given_and_rows_of_padding(make_model, settings):
    config = DecodeConfig(extra_length=4, alpha=ALPHA, **settings)
    search = Translator(make_model(), None, config).search
    source = np.pad(padded(SOURCES), [[0, 1], [0, 0]])
    numbers = np.arange(len(source), dtype=np.int32)
    expected = search(source, np.zeros([len(source), 0], np.int32), numbers, ALPHA)
    for found, each in zip(search(source), expected, strict=True):
        np.testing.assert_array_equal(found, each)
    if config.samples:  # The same outputs, without their length penalty.
        assert np.min(search(source, alpha=0.0).scores) < 1.2 * np.min(expected.scores)
    [last] = np.trim_zeros(expected.ids.numpy()[-1, 0])
    assert last == 1, "where there is nothing to translate, the output is its end alone"


@pytest.mark.parametrize("source_ends", [[True], [False], [True, False]])
def test_coverage_is_the_attention_to_the_source(make_model, source_ends):
    """What a step reports is the mean over layers and heads of the whole models' attention."""
    beta = 2.0
    models = [make_model(num_layers=2, source_end=source_end) for source_end in source_ends]
    log_probs_of = whole(*models)
    config = DecodeConfig(beam_size=3, extra_length=2, coverage_penalty=beta, alpha=0.6)
    ids, scores = Translator(models, None, config).search(padded(SOURCES))
    for source, [found], [score] in zip(SOURCES, ids.numpy(), scores.numpy(), strict=True):
        target = found[found != 0]
        log_probs = log_probs_of(source, target)[np.arange(len(target)), target]
        pair = {"source": np.array([source], np.int32), "target": target[None]}
        weights = [model.attention_weights(pair)["cross"][0].numpy() for model in models]
        attended = np.mean(weights, axis=(0, 1, 2)).sum(axis=0)
        expected = log_probs.sum() / ((5 + len(target)) / 6) ** 0.6
        read = len(source) - (not any(source_ends))
        expected += beta * np.log(np.minimum(attended[:read], 1)).sum()
        assert score == pytest.approx(expected, abs=1e-3)


def test_xla_is_not_used_unless_requested(make_model):
    """XLA's operators would be compiled for each shape, and not every server has them."""
    translator = Translator(make_model(), None)
    graph = translator.search.graph.get_concrete_function().graph.as_graph_def()
    operators = {node.op for function in graph.library.function for node in function.node_def}
    assert "MatMul" in operators or "BatchMatMulV2" in operators
    assert not [operator for operator in operators if operator.startswith("Xla")]
