import dataclasses
import gc
import io
import types
import weakref

import numpy as np
import pytest
import tensorflow as tf
from refusals import refused

from t2t_keras.data.problem import Problem
from t2t_keras.decoding import keras_engine
from t2t_keras.decoding.beam import forbidden_sequences, word_boundaries
from t2t_keras.decoding.config import DecodeConfig, decode_config
from t2t_keras.decoding.file_job import attention_records
from t2t_keras.decoding.keras_engine import alignment_layer
from t2t_keras.decoding.search import (
    Constraints,
    Hypotheses,
)
from t2t_keras.decoding.stored_model import unloaded_engine
from t2t_keras.decoding.translation import Hypothesis, Translation, one_line, perplexity
from t2t_keras.decoding.translator import Translator
from t2t_keras.models.transformer import Transformer
from t2t_keras.text.alignment import word_alignment
from t2t_keras.training import checkpoints

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


# Of lines and batches, which no search reads.
NOT_SEARCHED = dict(batch_tokens=64, batches_at_once=1, lines_at_once=64)
NOT_SEARCHED |= dict(split_long=False, max_input_length=512)


@pytest.fixture(scope="module")
def deeper(tokenizer, random_model):
    return random_model(0, tokenizer.vocab_size, num_layers=3, positions="learned", max_positions=5)


@pytest.fixture(scope="module")
def make(model, tokenizer):
    """make(**settings): a translator with the model; one graph for all that search alike."""
    graphs = {}

    def make(forbidden=(), problem=None, **settings):
        config = DecodeConfig(**settings)
        translator = Translator(model, tokenizer, config, forbidden, problem)
        rule = dataclasses.replace(config, **NOT_SEARCHED)
        key = frozenset(forbidden), rule
        translator.search.graph = graphs.setdefault(key, translator.search.graph)
        return translator

    return make


@pytest.fixture(scope="module")
def translator(make):
    return make(extra_length=4, return_beams=True)


def texts(translations):
    return [translation.text for translation in translations]


@pytest.mark.parametrize(
    "other",
    [dict(batch_tokens=1), dict(batches_at_once=3, batch_tokens=24), dict(xla=True)],
    ids=str,
)
def test_other_batches_give_the_same(make, translator, other):
    prefixes = ["", "", "", "dog", *[""] * 4]
    expected = translator.translate(LINES, prefixes)
    changed = make(**dataclasses.asdict(translator.config) | other)
    translations = changed.translate(LINES, prefixes)
    assert texts(translations) == texts(expected)
    scores = [translation.score for translation in expected]
    assert [translation.score for translation in translations] == pytest.approx(scores, abs=1e-5)


def test_order_blank_lines_and_all_hypotheses(make, translator):
    translations = translator.translate(LINES)
    assert translations == translator.translate(LINES), "the same, bit for bit"
    assert texts(translator.translate(LINES[::-1])[::-1]) == texts(translations)
    assert len(set(texts(translations))) > 4
    assert translator.translate([]) == []
    for line, translation, best in zip(
        LINES, translations, make(extra_length=4).translate(LINES), strict=True
    ):
        hypotheses = translation.hypotheses
        assert (len(hypotheses), len(best.hypotheses)) == ((4, 1) if line.strip() else (0, 0))
        assert translation.text == best.text
        # Products of other shapes may be rounded otherwise.
        assert translation.score == pytest.approx(best.score, abs=1e-5)
        assert translation.text == (hypotheses[0].text if hypotheses else "")
        assert [hypothesis.score for hypothesis in hypotheses] == sorted(
            hypothesis.score for hypothesis in hypotheses
        )[::-1]
    [score] = translator.score(["a man"], ["man a"])
    assert score.perplexity == pytest.approx(np.exp(-score.token_log_probs.mean()))


@pytest.mark.parametrize("separator", "\n\r\t")
def test_a_translation_stands_in_a_line_of_a_file(separator):
    assert one_line(f"ein{separator}Hund") == "ein Hund"


def test_a_perplexity_is_a_float():
    assert perplexity(-700) == pytest.approx(np.exp(700))
    assert (perplexity(0), perplexity(-710)) == (1, np.inf)


def test_a_translation_is_shown_in_one_line():
    hypotheses = tuple(Hypothesis(text, -0.25) for text in ("Ein\nHund.", "Hund"))
    translation = Translation(hypotheses[0].text, -1 / 3, hypotheses, parts=("Ein\nHund.",))
    assert repr(translation) == r"Translation('Ein\nHund.', score=-0.3333, hypotheses=2)"


def test_one_graph_for_all_shapes_and_new_weights(tokenizer, random_model):
    model = random_model(0, tokenizer.vocab_size, num_layers=1)
    translator = Translator(model, tokenizer, DecodeConfig(beam_size=2, extra_length=1))
    before = translator.translate(LINES[:2])
    model.embedding.table.embeddings.assign(-model.embedding.table.embeddings.numpy())
    assert translator.translate(LINES)[0] != before[0]
    assert translator.search.graph.experimental_get_tracing_count() == 1
    model.embedding.table.embeddings.assign(np.full(model.embedding.table.embeddings.shape, np.nan))
    for ask in (translator.translate, lambda lines: translator.score(lines, lines)):
        with refused("not_finite"):
            ask(["a man"])


LONG = "a " * 600


@pytest.mark.parametrize(
    ("ask", "code", "named"),
    [
        (lambda ours: ours.translate(["a man", "dog \udcff"]), "invalid_text", "dog \\udcff"),
        (lambda ours: ours.translate("a man"), "wrong_type", "'a man'"),
        (lambda ours: ours.translate(["a man", b"dog"]), "wrong_type", "bytes"),
        (lambda ours: ours.translate(b"a man"), "wrong_type", "b'a man'"),
        (lambda ours: ours.translate(["a", "man"], ["a"]), "unequal_counts", "2"),
        (lambda ours: list(ours.translate_stream(["a", "b"], ["c"])), "unequal_counts", "2"),
        (lambda ours: ours.search([[5, 1]], [[-1, 1]]), "other_vocabulary", "309"),
        (
            lambda ours: ours.attention_of_ids([[5, 1]], np.array([[310, 1]])),
            "other_vocabulary",
            "309",
        ),
        (lambda ours: ours.score("a man", ["a"]), "wrong_type", "'a man'"),
        (lambda ours: ours.score(["a man", None], ["a", "b"]), "wrong_type", "NoneType"),
        (lambda ours: ours.score(["a man", "a"], ["c"]), "unequal_counts", "2"),
        (lambda ours: ours.score(["a", "b"], ["a", LONG]), "too_long", "512"),
        (lambda ours: ours.score([LONG], ["a"], ["first.tsv:7"]), "too_long", "first.tsv:7"),
        (lambda ours: ours.align(["a", "b"], []), "unequal_counts", "2"),
        (lambda ours: Translator([], ours.tokenizer), "missing_argument", ""),
    ],
)
def test_what_is_refused(translator, ask, code, named):
    with refused(code, named):
        ask(translator)


@pytest.mark.parametrize(
    ("vocab_size", "radius", "named"),
    [
        (311, 0, ["vocab_size", "310, 311"]),
        (310, 2, ["self_attention_radius", "0, 2"]),
    ],
)
def test_models_that_do_not_fit_together(model, tokenizer, vocab_size, radius, named):
    shape = dict(num_layers=1, d_model=8, d_ff=8, num_heads=1)
    other = Transformer(vocab_size, self_attention_radius=radius, **shape)
    with refused("models_differ", *named):
        Translator([model, other], tokenizer)


class Shouted(Problem):
    def preprocess(self, source):
        return source.replace("1", "man")

    def postprocess(self, source, output, alignment=None):
        return f"{source}: {output.upper()}"


def test_lines_are_preprocessed_and_outputs_postprocessed(make, translator):
    shouted = make(extra_length=4, problem=Shouted())
    [expected], [actual] = translator.translate(["a man"]), shouted.translate(["a 1"])
    assert (actual.text, actual.score) == (expected.text, expected.score)
    assert actual.postprocessed == f"a man: {expected.text.upper()}"
    assert expected.postprocessed == expected.text
    [expected], [shouted_score] = (
        translator.score(["a man"], ["man a"]),
        shouted.score(["a 1"], ["man a"]),
    )
    assert shouted_score.log_prob == expected.log_prob


def test_prefixes(make, tokenizer, translator):
    free = texts(translator.translate(LINES[:4]))
    prefixes = ["cat man", "", "", "tree"]
    begun = translator.translate(LINES[:4], prefixes)
    for translation, prefix, text in zip(begun, prefixes, free, strict=True):
        assert (translation.text == text) == (not prefix)
        assert all(hypothesis.text.startswith(prefix) for hypothesis in translation.hypotheses)
    assert begun[0].text != prefixes[0], "the output continues after its prefix"
    short = make(beam_size=1, max_length=4)
    begins = tokenizer.encode(["the small dog sleeps"])[0][:-1]
    translations = short.translate(["a man", "a man", ""], ["the small dog sleeps", "the", "the"])
    assert [translation.prefix_cut for translation in translations] == [len(begins) - 3, 0, 0]
    assert translations[0].text == tokenizer.decode([begins[:3]])[0]


def test_forbidden_words(make, translator):
    lines, forbidden = LINES[:2], {"cat", "e"}
    assert forbidden <= {
        word for text in texts(translator.translate(lines)) for word in text.split()
    }
    for translation in make(forbidden=forbidden, return_beams=True, extra_length=4).translate(
        lines
    ):
        for hypothesis in translation.hypotheses:
            assert not forbidden & set(hypothesis.text.split())


def test_forbidden_words_have_their_boundaries(model, tokenizer, monkeypatch):
    searches = []
    monkeypatch.setattr(keras_engine, "Search", lambda *arguments: searches.append(arguments))
    Translator(model, tokenizer, DecodeConfig(min_length=3), ["cat"])
    sequences, boundaries = forbidden_sequences(["cat"], tokenizer), word_boundaries(tokenizer)
    assert searches[0][2] == Constraints(3, sequences, boundaries)


def test_samples(make):
    settings = dict(samples=5, return_beams=True, extra_length=6, alpha=0.0, seed=3)
    translator = make(**settings)
    together = translator.translate(LINES[:4])
    # The draws depend on the seed and the line's number, not on what else is translated.
    [alone] = translator.translate_stream(LINES[3:4], first_number=3)
    assert texts(alone.hypotheses) == texts(together[3].hypotheses)
    by_one = make(**settings, lines_at_once=1).translate(LINES[:4])
    assert texts(by_one[3].hypotheses) == texts(together[3].hypotheses)
    assert [len(set(texts(translation.hypotheses))) > 1 for translation in together] == [
        True,
        True,
        False,
        True,
    ]
    [translation] = make(**settings, temperature=0.001, top_k=1).translate(LINES[:1])
    assert len(set(texts(translation.hypotheses))) == 1


@pytest.fixture(scope="module")
def cut_and_split(make):
    """Translators of lines of at most 10 tokens."""
    config = dict(beam_size=1, extra_length=4, max_input_length=10)
    return make(**config), make(**config, split_long=True)


def test_long_lines_are_cut_or_split(tokenizer, cut_and_split):
    cut, split = cut_and_split
    line = "the small dog sleeps. a man sees the tree. red red house."
    ids = tokenizer.encode([line])[0]
    [text] = tokenizer.decode([ids[:9]])
    first, short = cut.translate([line, "a man"])
    assert (first.cut, short.cut) == (len(ids) - 10, 0)
    assert texts([first, short]) == texts(cut.translate([text, "a man"]))
    joined, second = split.translate([line, "a man"])
    parts = split.translate([f"{part}." for part in line.rstrip(".").split(". ")])
    assert joined.text == " ".join(texts(parts))
    assert joined.score == pytest.approx(sum(part.score for part in parts), abs=1e-5)
    assert joined.cut == sum(part.cut for part in parts)
    assert second.text == short.text


@pytest.mark.parametrize("xla", [False, True])
def test_each_part_of_a_line_has_its_own_prefix_and_number(make, tokenizer, monkeypatch, xla):
    requested, done = {}, []

    def echo(source, prefixes, numbers):
        begun = tokenizer.decode([row[row > 0] for row in prefixes])
        for text, prefix, number in zip(tokenizer.decode(source), begun, numbers, strict=True):
            requested[text] = prefix, int(number)
        return Hypotheses(tf.constant(source)[:, None], tf.fill([len(source), 1], -0.5))

    split = make(xla=xla, batch_tokens=64, max_input_length=10, split_long=True)
    monkeypatch.setattr(split.engine, "search", echo)
    lines = ["a man", "", "a dog sleeps. a man sees."]
    actual = list(split.translate_stream(lines, ["", "", "red"], 10, done.append))
    parts = [("a man",), (), ("a dog sleeps.", "a man sees.")]
    assert [translation.parts for translation in actual] == parts
    assert texts(actual) == lines
    assert [translation.score for translation in actual] == [-0.5, 0.0, -1.0]
    assert sum(done) == 3
    assert requested["a man"] == ("", 10)
    assert requested["a dog sleeps."] == ("red", 12)
    prefix, number = requested["a man sees."]
    assert prefix == ""
    assert number not in range(10, 10 + (1 << 20)), "no line has a part's number"


def test_cut_and_split_lines_are_aligned_as_they_were_translated(tokenizer, cut_and_split):
    cut, split = cut_and_split
    line = "the small dog sleeps.  a\u00a0man.\u00a0sees the tree. red"
    # What was cut off is not there; the end is, of what was kept.
    [text] = tokenizer.decode([tokenizer.encode([line])[0][:9]])
    actual, whole = cut.align([line, text], cut.translate([line, text]))
    assert actual == whole
    # Each sentence as if it stood alone. One begins within a word, as a no-break space is.
    alignment, blank = split.align([line, " "], split.translate([line, " "]))
    sentences = ["the small dog sleeps.", "a\u00a0man.", "sees the tree.", "red"]
    translations = split.translate(sentences)
    expected, words = [], 0
    for first, translation, pairs in zip(
        [0, 4, 4, 7], translations, split.align(sentences, translations), strict=True
    ):
        expected += [(first + source, words + target) for source, target in pairs]
        words += len(translation.text.split())
    assert (alignment, blank) == (expected, [])


class Told(Problem):
    def preprocess(self, source):
        return f"red {source}"

    def words_in_front(self, source):
        return "red "


def test_words_for_the_model_stand_before_each_sentence(make):
    split = make(beam_size=1, extra_length=4, max_input_length=10, split_long=True, problem=Told())
    line, sentences = "the dog sleeps. a man sees.", ["the dog sleeps.", "a man sees."]
    [read] = split.prepare([line])
    assert [part.source for part in read.parts] == sentences
    assert [part.ids.tolist() for part in read.parts] == [
        split.prepare([sentence])[0].parts[0].ids.tolist() for sentence in sentences
    ]
    translations = split.translate(sentences)
    [joined] = split.translate([line])
    assert joined.parts == tuple(texts(translations))
    [actual], of_parts = split.align([line], [joined]), split.align(sentences, translations)
    words = len(translations[0].text.split())
    # What aligns with the word in front does so with none of the line's.
    assert actual == of_parts[0] + [(3 + source, words + target) for source, target in of_parts[1]]
    assert {source for source, _ in actual} <= set(range(6))


def test_the_file_of_attention_has_each_line_s_own_weights(make, model, tokenizer):
    """It is read by NumPy alone; the third line is cut."""
    lines = ["the small 1", " ", "a 1 sees the tree and more than that", *["red house"] * 8]
    targets, most = ["dog small the", "", "tree", *["house red"] * 8], 12
    translator = make(max_input_length=most, problem=Shouted())
    translations = [Translation(text, 0.0) for text in targets]
    file = io.BytesIO(b"".join(attention_records(translator, lines, translations)))
    read = tokenizer.encode([line.replace("1", "man").strip() for line in lines])
    read[2] = np.append(read[2][: most - 1], 1)
    for ids in zip(read, tokenizer.encode(targets), strict=True):
        source, target, *weights = (np.load(file) for _ in range(5))
        assert [source.tolist(), target.tolist()] == list(map(tokenizer.pieces, ids))
        expected = model.attention_weights({"source": ids[0][None], "target": ids[1][None]})
        for weight, kind in zip(weights, ("encoder", "decoder", "cross"), strict=True):
            assert weight.dtype == np.float32
            np.testing.assert_allclose(weight, expected[kind][0], atol=1e-5)
    assert not file.read()


@pytest.mark.usefixtures("eagerly")
def test_words_are_aligned_by_the_mean_attention_of_the_last_layer_but_one(
    model, deeper, tokenizer
):
    lines, targets = ["the small dog sleeps", "red red house"], ["sleeps dog small", "house red"]
    translations = [Translation(text, 0.0, parts=(text,)) for text in targets]
    one, other, both = (
        Translator(models, tokenizer) for models in ([model], [deeper], [model, deeper])
    )
    assert [alignment_layer(layers) for layers in (1, 2, 3, 6)] == [0, 1, 1, 4]
    # The models have one layer and three.
    first = [
        pair_attention.cross[0].mean(axis=0) for pair_attention in one.attention(lines, targets)
    ]
    attention = other.attention(lines, targets)
    second = [pair_attention.cross[1].mean(axis=0) for pair_attention in attention]
    means = [(one_weight + more) / 2 for one_weight, more in zip(first, second, strict=True)]
    for translator, weights in ((one, first), (other, second), (both, means)):
        assert translator.align(lines, translations) == [
            word_alignment(pair_attention.source, pair_attention.target, weight)
            for pair_attention, weight in zip(attention, weights, strict=True)
        ]
    with refused("not_supported", "2"):
        both.attention(["a"], ["b"])


def test_a_translation_of_any_length_is_aligned(make, tokenizer):
    translator = make(beam_size=1, max_input_length=6, min_length=12, extra_length=20)
    [translation] = translator.translate(["a man sees"])
    assert len(tokenizer.encode([translation.text])[0]) > 6
    [pairs] = translator.align(["a man sees"], [translation])
    assert [target for _, target in pairs] == list(range(len(translation.text.split())))


class Parsing(Problem):
    decoding = types.MappingProxyType({"beam_size": 21, "alpha": 0.3})


@pytest.mark.parametrize(("whole_config", "beam"), [("alpha=1", 21), (DecodeConfig(alpha=1.0), 4)])
def test_a_whole_config_leaves_no_setting_to_the_problem(model, tokenizer, whole_config, beam):
    run = types.SimpleNamespace(vocabulary=tokenizer, problem=Parsing())
    run.make_model = lambda weights_dtype, will_load: model
    config = decode_config(whole_config, run.problem.decoding_defaults)
    assert unloaded_engine(run, config).config == DecodeConfig(beam_size=beam, alpha=1.0)


def test_all_models_have_the_type_of_the_settings(model, tokenizer, monkeypatch):
    configs = []
    load = lambda path, vocabulary, dtype: configs.append((path, dtype)) or model  # noqa: E731
    monkeypatch.setattr(checkpoints, "load_ensemble_model", load)
    run = types.SimpleNamespace(vocabulary=tokenizer, problem=Problem())
    run.make_model = lambda dtype, will_load: load("", tokenizer, dtype)
    engine = unloaded_engine(run, DecodeConfig(weights_dtype="bfloat16"), ["other"])
    assert configs == [("", "bfloat16"), ("other", "bfloat16")]
    assert engine.models == (model, model)


def test_what_fits_can_be_scored(make, tokenizer):
    size = len(tokenizer.encode(["a man sees"])[0])
    assert make(max_input_length=size).fits(["a man sees"] * 2, ["a", "a man sees"]) == [True] * 2
    shorter = make(max_input_length=size - 1)
    assert shorter.fits(["a man sees", "a", "a"], ["a", "a man sees", "a"]) == [False, False, True]


def test_a_translator_that_is_dropped_leaves_no_graph(model, tokenizer):
    translator = Translator(model, tokenizer, DecodeConfig(beam_size=2, extra_length=2))
    graph = weakref.ref(translator.search.graph.get_concrete_function().graph)
    del translator
    gc.collect()
    assert graph() is None, "a server that reloads would grow"


def test_text_is_read_in_nfc(translator):
    composed, decomposed = "na\u00efve caf\u00e9", "nai\u0308ve cafe\u0301"
    one, other = translator.prepare([composed, decomposed])
    assert one.source == other.source == composed
    assert np.array_equal(one.parts[0].ids, other.parts[0].ids)
    both = [composed, decomposed]
    one, other = translator.translate(["dog"] * 2, prefixes=both)
    assert one.text == other.text
    scores = [pair_score.log_prob for pair_score in translator.score(both, both[::-1])]
    assert scores[0] == pytest.approx(scores[1])


@pytest.mark.parametrize("line", ["\u200b", "\ufeff", "\u200d"])
def test_lines_that_show_nothing_are_not_translated(make, line):
    assert make().translate([line])[0].text == ""
