"""Search and scoring, with kept keys and values, against the whole model without them.

Also in half precision, and of single sentences by XLA, compiled while they are translated without.
"""

import types

import numpy as np
import pytest
import tensorflow as tf
from refusals import refused
from table_search import plain_beam_search

from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.engine import pad_rows
from t2t_keras.decoding.keras_engine import MAX_COMPILED_LENGTH, BackgroundXlaSearch, Ensemble
from t2t_keras.decoding.translator import Translator
from t2t_keras.layers import attention
from t2t_keras.models.transformer import Transformer

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
            autograph=False,
        )
        for model in models
    ]

    def log_probs(source, target):
        pair = np.array([source], np.int32), np.array([target], np.int32)
        actual = [
            tf.nn.softmax(tf.cast(compute(*pair)[0], tf.float64)).numpy() for compute in logits
        ]
        return np.log(np.mean(actual, axis=0))

    return log_probs


@pytest.mark.parametrize("kind", [*KINDS, "ensemble"])
def test_search_and_score(make_model, kind):
    models = [make_model(**KINDS.get(kind, {}))]
    if kind == "ensemble":
        models.append(make_model(1, positions="learned", max_positions=4))
    log_probs = whole(*models)
    for beam_size in (1, 3) if kind == "the paper's" else (3,):
        config = DecodeConfig(beam_size=beam_size, alpha=ALPHA, extra_length=EXTRA_LENGTH)
        translator = Translator(models, None, config)
        ids, scores = (actual.numpy()[:, 0] for actual in translator.search(pad_rows(SOURCES)))
        outputs = [row[row != 0] for row in ids]
        for source, output, score in zip(SOURCES, outputs, scores, strict=True):
            # What the last target is does not matter: its logits have not seen it.
            expected, expected_score = plain_beam_search(
                lambda prefix, source=source: log_probs(source, [*prefix, 1])[-1],
                len(source) + EXTRA_LENGTH,
                ALPHA,
                beam_size,
            )[0]
            assert tuple(output.tolist()) == expected
            assert score == pytest.approx(expected_score, abs=1e-4)
        assert max(map(len, outputs)) > 8
    arrays = [np.array(source, np.int32) for source in SOURCES]
    for number, output in translator.engine.log_probs(arrays, outputs):
        expected = log_probs(SOURCES[number], outputs[number])
        of_outputs = expected[np.arange(len(output)), outputs[number]]
        np.testing.assert_allclose(output, of_outputs, atol=1e-4)


@pytest.mark.parametrize("settings", [dict(beam_size=2), dict(samples=3, seed=2)], ids=str)
def test_what_is_not_given_and_rows_of_padding(make_model, settings):
    config = DecodeConfig(extra_length=4, alpha=ALPHA, **settings)
    search = Translator(make_model(), None, config).search
    source = np.pad(pad_rows(SOURCES), [[0, 1], [0, 0]])
    numbers = np.arange(len(source), dtype=np.int32)
    expected = search(source, np.zeros([len(source), 0], np.int32), numbers, ALPHA)
    for actual, expected_array in zip(search(source), expected, strict=True):
        np.testing.assert_array_equal(actual, expected_array)
    if config.samples:  # The same outputs, without their length penalty.
        assert np.min(search(source, alpha=0.0).scores) < 1.2 * np.min(expected.scores)
    [last] = np.trim_zeros(expected.ids.numpy()[-1, 0])
    assert last == 1, "where there is nothing to translate, the output is its end alone"


class Copies:
    """Lets outputs be their sources alone, which have to be without a symbol."""

    def __init__(self, without=0):
        self.without = without

    def start(self, source):
        return (tf.pad(source, [[0, 0], [0, EXTRA_LENGTH]]),)

    def mask(self, logits, live_ids, index, limits, data):
        [source] = data
        symbols = tf.range(VOCAB_SIZE)
        allowed = (symbols == source[:, index, None]) & (symbols != self.without)
        return tf.where(allowed[:, None], logits, -np.inf)


def test_a_grammar_knows_the_sources_and_holds_for_all_hypotheses(make_model):
    config = DecodeConfig(beam_size=2, extra_length=EXTRA_LENGTH)
    free = Translator(make_model(), None, config).engine
    none, numbers = [np.zeros(0, np.int32)] * len(SOURCES), range(len(SOURCES))
    sources = [np.array(source, np.int32) for source in SOURCES]
    engine = free.with_grammar(Copies())
    for searching in (engine, engine.with_all_hypotheses()):
        for source, outputs in zip(SOURCES, searching.outputs(sources, none, numbers), strict=True):
            assert [np.trim_zeros(output.ids).tolist() for output in outputs] == [source]
    free_outputs = free.outputs(sources, none, numbers)
    assert [np.trim_zeros(output.ids).tolist() for [output] in free_outputs] != SOURCES
    # A second one holds besides: the sources that it does not allow have no output.
    both = engine.with_grammar(Copies(without=4))
    [[output]] = both.outputs(sources[1:2], none[:1], [0])
    assert np.trim_zeros(output.ids).tolist() == SOURCES[1]
    config = DecodeConfig(samples=2, extra_length=EXTRA_LENGTH)
    sampling = Translator(make_model(), None, config).engine.with_grammar(Copies(without=4))
    for searching in (both, sampling):
        with refused("not_finite"):
            searching.outputs(sources[2:], none[:1], [0])


@pytest.mark.parametrize("source_ends", [[False], [True, False]])
def test_coverage_is_the_attention_to_the_source(make_model, source_ends):
    """What a step reports is the mean over layers and heads of the whole models' attention."""
    beta = 2.0
    models = [make_model(num_layers=2, source_end=source_end) for source_end in source_ends]
    log_probs_of = whole(*models)
    config = DecodeConfig(beam_size=3, extra_length=2, coverage_penalty=beta, alpha=0.6)
    ids, scores = Translator(models, None, config).search(pad_rows(SOURCES))
    for source, [actual], [score] in zip(SOURCES, ids.numpy(), scores.numpy(), strict=True):
        target = actual[actual != 0]
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


def test_ids_of_each_side_are_of_its_own_vocabulary():
    config = types.SimpleNamespace(self_attention_radius=0)
    model = types.SimpleNamespace(vocab_size=5, source_vocab_size=7, config=config)
    ensemble = Ensemble([model])
    ensemble.check_ids(np.array([[6]]), np.array([[4]]))
    with refused("other_vocabulary", "from 0 to 6", "7 to 7"):
        ensemble.check_ids(np.array([[7]]))
    with refused("other_vocabulary", "from 0 to 4", "-1 to 5"):
        ensemble.check_ids(np.array([[6]]), np.array([[5, -1]]))


@pytest.mark.parametrize("with_coverage", [False, True])
def test_attention_is_returned_only_for_a_coverage_penalty(monkeypatch, with_coverage):
    """Where weights are returned, restricted attention is not computed in blocks."""
    shape = dict(num_layers=2, d_model=8, d_ff=8, num_heads=2, self_attention_radius=1)
    model = Transformer(11, **shape)
    model.build()
    blocks, scores = [], []
    in_blocks, decode_step = attention.restricted_self_attention, model.decode_step

    def counted(*arguments, **options):
        blocks.append(options["radius"])
        return in_blocks(*arguments, **options)

    def step(*arguments):
        scores.append(arguments[5])
        return decode_step(*arguments)

    monkeypatch.setattr(attention, "restricted_self_attention", counted)
    monkeypatch.setattr(model, "decode_step", step)
    ensemble = Ensemble([model], with_coverage)
    cache = ensemble.start(tf.constant([[3, 4, 1]]), block_size=2, beam_size=1)
    valid_slots = tf.constant([[[True, False]]])
    scored = ensemble.step(tf.constant([[0]]), tf.constant(0), tf.constant(0), valid_slots, cache)
    assert (blocks, scores) == ([1, 1], [with_coverage])
    assert scored.attention.shape == (1, 1, 3 if with_coverage else 0)
    if with_coverage:
        assert float(tf.reduce_sum(scored.attention)) == pytest.approx(1)


LINES = ["the small dog sleeps", "a man sees the tree", "red red house"]


def half_precision(model, dtype):
    half = Transformer.from_config(model.get_config() | dict(dtype=dtype))
    half.build()
    half.set_weights(model.get_weights())
    return half


@pytest.mark.parametrize("dtype", ["bfloat16", "mixed_bfloat16", "mixed_float16"])
def test_attention_is_that_of_float32_but_for_rounding(model, dtype, tokenizer):
    pair = {
        "source": pad_rows(tokenizer.encode(LINES)),
        "target": pad_rows(tokenizer.encode([" ".join(line.split()[::-1]) for line in LINES])),
    }
    expected = model.attention_weights(pair)
    for kind, weights in half_precision(model, dtype).attention_weights(pair).items():
        assert weights.dtype == tf.float32
        real = pair["source" if kind == "encoder" else "target"] != 0
        actual, exact = (
            tensor.numpy().transpose(0, 3, 1, 2, 4)[real] for tensor in (weights, expected[kind])
        )
        np.testing.assert_allclose(actual, exact, atol=0.1)


def test_scores_with_coverage_are_those_of_float32_but_for_rounding(model, tokenizer):
    def scores(model, beta=0.5):
        config = DecodeConfig(beam_size=2, alpha=0.0, extra_length=2, coverage_penalty=beta)
        return np.array(
            [
                translation.score
                for translation in Translator(model, tokenizer, config).translate(LINES)
            ]
        )

    exact = scores(model)
    assert (exact < scores(model, beta=0.0) - 0.3).all(), "it costs more than rounding"
    for dtype in ("bfloat16", "mixed_float16"):
        rounded = scores(half_precision(model, dtype))
        np.testing.assert_allclose(rounded, exact, rtol=0.05, atol=0.1)
        assert not np.allclose(rounded, exact, rtol=1e-6), "it was rounded"


def test_no_weight_is_cast_at_a_step(model, tokenizer):
    rounded = half_precision(model, "bfloat16")
    translator = Translator(rounded, tokenizer, DecodeConfig(extra_length=4))
    translator.translate(LINES)
    shapes = {
        tuple(variable.shape) for variable in rounded.trainable_variables if len(variable.shape) > 1
    }
    graph = translator.search.graph.get_concrete_function().graph.as_graph_def(add_shapes=True)
    nodes = [node for function in graph.library.function for node in function.node_def]
    products = [node for node in nodes if node.op in ("MatMul", "BatchMatMulV2")]
    assert {node.attr["T"].type for node in products} == {tf.bfloat16.as_datatype_enum}
    for node in (node for node in nodes if node.op == "Cast"):
        shape = tf.TensorShape(node.attr["_output_shapes"].list.shape[0])
        assert shape.rank != 2 or tuple(shape) not in shapes, node.name


@pytest.fixture
def called(monkeypatch):
    """Whether the compiled search answered, call after call."""
    answers, call = [], BackgroundXlaSearch.__call__

    def recorded(self, *arguments):
        actual = call(self, *arguments)
        answers.append(actual is not None)
        return actual

    monkeypatch.setattr(BackgroundXlaSearch, "__call__", recorded)
    return answers


def test_what_is_compiled_finds_the_same(model, tokenizer, called, monkeypatch):
    def make(**settings):
        settings |= dict(return_beams=True, extra_length=4)
        return Translator(model, tokenizer, DecodeConfig(**settings))

    expected = make().translate(LINES)
    translator = make(xla_for_one=True)
    background = translator.engine.single_sentence_search
    # Its name in the cache of compiled code counts what was traced before.
    assert background.search.graph.experimental_get_tracing_count() == 1

    def check():
        actual = [translator.translate([line])[0] for line in LINES]
        assert [translation.text for translation in actual] == [
            translation.text for translation in expected
        ]
        scores = [[hypothesis.score for hypothesis in line.hypotheses] for line in expected]
        for line, some in zip(actual, scores, strict=True):
            assert [hypothesis.score for hypothesis in line.hypotheses] == pytest.approx(
                some, abs=2e-5
            )

    check()
    assert not called[0], "nobody waits for a compilation"
    background.wait()
    called.clear()
    check()
    assert called == [True] * len(LINES)
    translator.translate(LINES)
    ids = np.full([1, MAX_COMPILED_LENGTH + 1], 5, np.int32)
    arguments = np.zeros([1, 0], np.int32), np.zeros(1, np.int32)
    assert background(ids, *arguments) is None
    background.wait()
    assert background(ids, *arguments) is None, "it is not compiled"
    monkeypatch.setattr(background, "search", lambda *_: "found")
    assert background(ids[:, 1:], *arguments) is None
    background.wait()
    assert background(ids[:, 1:], *arguments) == "found"
