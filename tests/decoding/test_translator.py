"""Decoding with the real model: what the cache computes is what the whole model computes."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.decoding.config import DecodeConfig, decode_config
from t2t_keras.decoding.translator import Translator
from t2t_keras.errors import UserError
from t2t_keras.models.transformer import Transformer

EOS = 1
LINES = [
    "the small dog sleeps",
    "a man",
    "",
    "the woman sees the small dog and the red tree",
    "   ",
    "der kleine Hund schläft im Haus",
    "\u3000",
    "dog dog dog",
]


@pytest.fixture(scope="module")
def log_probs_of(model):
    """log_probs_of(source, target): float64 [target length, V], the whole model, no cache."""

    @tf.function(input_signature=[tf.TensorSpec([1, None], tf.int32)] * 2)
    def logits(source, target):
        return model({"source": source, "target": target}, training=False)

    def log_probs_of(source, target):
        found = logits(np.array([source], np.int32), np.array([target], np.int32))[0]
        return tf.nn.log_softmax(found.numpy().astype(np.float64)).numpy()

    return log_probs_of


def found_by(translator, sources):
    """[(ids with the end, score), ...] of the best hypotheses."""
    ids, scores = translator.search(sources)
    return [
        (tuple(found[found != 0].tolist()), score)
        for [found], [score] in zip(ids.numpy(), scores.numpy(), strict=True)
    ]


@pytest.fixture(scope="module")
def sources(tokenizer, padded):
    return padded(tokenizer.encode([line for line in LINES if line.strip()]))


@pytest.mark.parametrize("beam_size", [1, 4])
def test_cached_scores_are_the_whole_models(model, tokenizer, sources, log_probs_of, beam_size):
    translator = Translator(model, tokenizer, DecodeConfig(beam_size=beam_size, extra_length=8))
    lengths = set()
    for source, (ids, score) in zip(sources, found_by(translator, sources), strict=True):
        source = source[source != 0]
        log_probs = log_probs_of(source, ids)
        expected = log_probs[np.arange(len(ids)), ids].sum() / ((5 + len(ids)) / 6) ** 0.6
        assert score == pytest.approx(expected, abs=1e-4)
        assert ids.index(EOS) == len(ids) - 1 < len(source) + 8
        lengths.add(len(ids) - len(source))
    assert len(lengths) > 2, "the outputs should end in different places"


def test_beam_search_over_the_whole_model(
    model, tokenizer, sources, log_probs_of, plain_beam_search
):
    translator = Translator(model, tokenizer, DecodeConfig(beam_size=3, alpha=1.0, extra_length=2))
    for source, (ids, score) in zip(sources, found_by(translator, sources), strict=True):
        source = source[source != 0]
        expected_ids, expected_score = plain_beam_search(
            lambda prefix, source=source: log_probs_of(source, [*prefix, EOS])[-1],
            max_length=len(source) + 2,
            alpha=1.0,
            beam_size=3,
        )[0]
        assert ids == expected_ids
        assert score == pytest.approx(expected_score, abs=1e-4)


def test_beam_of_one_is_greedy(model, tokenizer, sources, log_probs_of):
    translator = Translator(model, tokenizer, DecodeConfig(beam_size=1, extra_length=5))
    for source, (ids, _) in zip(sources, found_by(translator, sources), strict=True):
        source = source[source != 0]
        expected = ()
        while expected[-1:] != (EOS,) and len(expected) < len(source) + 4:
            following = log_probs_of(source, [*expected, EOS])[-1]
            expected += (1 + int(np.argmax(following[1:])),)
        assert ids == (expected if expected[-1] == EOS else (*expected, EOS))


def test_batch_equals_single(model, tokenizer):
    together = Translator(model, tokenizer, DecodeConfig(extra_length=8))
    alone = Translator(model, tokenizer, DecodeConfig(extra_length=8, batch_tokens=1))
    batched = together.translate(LINES)
    for line, translation, single in zip(LINES, batched, alone.translate(LINES), strict=True):
        assert translation.text == single.text
        assert translation.score == pytest.approx(single.score, abs=1e-5)
        assert together.translate([line])[0].text == translation.text
    assert batched == together.translate(LINES), "the same call gives the same, bit for bit"


def test_order_and_blank_lines(model, tokenizer):
    translator = Translator(model, tokenizer, DecodeConfig(beam_size=2, extra_length=4))
    translations = translator.translate(LINES)
    for line, translation in zip(LINES, translations, strict=True):
        assert (translation.text, translation.score) == ("", 0.0) or line.strip()
    backwards = translator.translate(LINES[::-1])
    assert [t.text for t in backwards[::-1]] == [t.text for t in translations]
    assert len({t.text for t in translations}) > 4
    assert translator.translate([]) == []
    assert translator.translate(["", " "]) == translator.translate(["\t", "\u00a0"])


def test_one_graph_for_all_shapes_and_new_weights(tokenizer):
    keras.utils.set_random_seed(1)
    model = Transformer(tokenizer.vocab_size, num_layers=1, d_model=16, d_ff=16, num_heads=2)
    model.build()
    translator = Translator(model, tokenizer, DecodeConfig(beam_size=2, extra_length=1))
    before = translator.translate(LINES[:2])
    model.embedding.matrix.assign(-model.embedding.matrix.numpy())
    after = translator.translate(LINES)
    assert after[0] != before[0]
    assert translator._search._graph.experimental_get_tracing_count() == 1


def test_weights_that_are_no_numbers(tokenizer):
    model = Transformer(tokenizer.vocab_size, num_layers=1, d_model=16, d_ff=16, num_heads=2)
    model.build()
    model.embedding.matrix.assign(np.full(model.embedding.matrix.shape, np.nan))
    with pytest.raises(UserError, match="weights are damaged"):
        Translator(model, tokenizer).translate(["a man"])


def test_decode_config():
    assert decode_config() == DecodeConfig(beam_size=4, alpha=0.6, extra_length=50)
    changed = decode_config("beam_size=1, alpha=0,extra_length=3,batch_tokens=1e4")
    assert changed == DecodeConfig(beam_size=1, alpha=0.0, extra_length=3, batch_tokens=10_000)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("beam=4", "no decoding setting 'beam'.* 'beam_size'"),
        ("beam_size=0", "at least 1; 0 came"),
        ("alpha=-1", "at least 0.0; -1.0 came"),
        ("alpha=nan", "takes a number"),
        ("batch_size=32", "called 'batch_tokens' here"),
    ],
)
def test_decode_config_refuses(text, message):
    with pytest.raises(UserError, match=message):
        decode_config(text)


class NeverEnds:
    """Symbol 5 for ever: only the limit ends its output."""

    def __init__(self):
        self.config = {"self_attention_radius": 0, "vocab_size": 8}

    def encode(self, source, training):
        return tf.cast(source, tf.float32)[:, :, None], source != 0

    def start_cache(self, memory, memory_mask, room, hypotheses):
        by_sentence = {"memory": memory, "memory_mask": memory_mask}
        return {**by_sentence, "projection": [], "past": [], "recent": []}

    def decode_step(self, previous, index, cache, place, legal):
        logits = tf.one_hot(tf.fill(tf.shape(previous), 5), 8, on_value=9.0)
        return logits, cache


@pytest.mark.parametrize("beam_size", [1, 3])
def test_the_limit_is_each_sentences_own_length(padded, beam_size):
    sources = padded([[4] * 11 + [EOS], [4, EOS], [4] * 6 + [EOS]])
    translator = Translator(NeverEnds(), None, DecodeConfig(beam_size=beam_size, extra_length=3))
    assert [len(ids) for ids, _ in found_by(translator, sources)] == [15, 5, 10]


def test_the_limit_for_all_sentences(padded):
    sources = padded([[4] * 11 + [EOS], [4, EOS]])
    translator = Translator(NeverEnds(), None, DecodeConfig(extra_length=3, max_length=7))
    assert [len(ids) for ids, _ in found_by(translator, sources)] == [7, 5]


def test_minimum_length(model, sources):
    shortest = Translator(model, None, DecodeConfig(beam_size=3))
    longer = Translator(model, None, DecodeConfig(beam_size=3, min_length=9))
    assert min(len(ids) for ids, _ in found_by(shortest, sources)) < 9
    assert min(len(ids) for ids, _ in found_by(longer, sources)) >= 9


def test_compiled_by_xla_it_translates_the_same(model, tokenizer):
    # Batches are filled up to few shapes; what is filled in must not come out.
    plain, compiled = (
        Translator(model, tokenizer, DecodeConfig(xla=xla, extra_length=8)) for xla in (False, True)
    )
    prefixes = ["", "", "", "dog", *[""] * 4]
    for expected, found in zip(
        plain.translate(LINES, prefixes), compiled.translate(LINES, prefixes), strict=True
    ):
        assert found.text == expected.text
        assert found.score == pytest.approx(expected.score, abs=1e-5)


def test_nothing_is_compiled_unasked(model):
    """XLA's operators would be compiled for each shape, and not every server has them."""
    graph = Translator(model, None)._search._graph.get_concrete_function().graph.as_graph_def()
    operators = {node.op for function in graph.library.function for node in function.node_def}
    assert "MatMul" in operators or "BatchMatMulV2" in operators
    assert not [operator for operator in operators if operator.startswith("Xla")]
