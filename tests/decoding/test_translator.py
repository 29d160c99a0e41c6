"""Lines of text through a `Translator`, with a real model."""

import dataclasses
import io

import numpy as np
import pytest

from t2t_keras.data.problem import Problem
from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.jobs.files import attention_records
from t2t_keras.decoding.translation import Translation
from t2t_keras.decoding.translator import Translator
from t2t_keras.errors import UserError
from t2t_keras.models.transformer import Transformer
from t2t_keras.text.alignment import word_alignment

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
def untaught(tokenizer):
    """A model with random weights, of another size and three layers."""
    model = Transformer(
        tokenizer.vocab_size, num_layers=3, d_model=8, d_ff=8, num_heads=2, learned_positions=5
    )
    model.build()
    random = np.random.default_rng(0)
    for weight in model.trainable_variables:
        weight.assign(random.normal(1.0 if "gamma" in weight.path else 0.0, 0.5, weight.shape))
    return model


@pytest.fixture(scope="module")
def translator(model, tokenizer):
    """A translator that returns all hypotheses."""
    config = DecodeConfig(beam_size=4, extra_length=4, return_beams=True)
    return Translator(model, tokenizer, config)


def texts(translations):
    return [each.text for each in translations]


@pytest.mark.parametrize(
    "other",
    [
        dict(batch_tokens=1),
        dict(batches_at_once=3, batch_tokens=24),
        dict(lines_at_once=2),
        dict(xla=True),
    ],
    ids=str,
)
def test_other_batches_give_the_same(model, tokenizer, translator, other):
    prefixes = ["", "", "", "dog", *[""] * 4]
    expected = translator.translate(LINES, prefixes)
    changed = Translator(model, tokenizer, dataclasses.replace(translator.config, **other))
    found = changed.translate(LINES, prefixes)
    assert texts(found) == texts(expected)
    assert [each.score for each in found] == pytest.approx(
        [each.score for each in expected], abs=1e-5
    )


def test_order_and_blank_lines(translator):
    translations = translator.translate(LINES)
    assert translations == translator.translate(LINES), "the same, bit for bit"
    for line, translation in zip(LINES, translations, strict=True):
        assert (translation.text, translation.hypotheses) == ("", ()) or line.strip()
    assert texts(translator.translate(LINES[::-1])[::-1]) == texts(translations)
    assert len(set(texts(translations))) > 4
    assert translator.translate([]) == []


def test_one_graph_for_all_shapes_and_new_weights(tokenizer):
    model = Transformer(tokenizer.vocab_size, num_layers=1, d_model=8, d_ff=8, num_heads=2)
    model.build()
    translator = Translator(model, tokenizer, DecodeConfig(beam_size=2, extra_length=1))
    before = translator.translate(LINES[:2])
    model.embedding.matrix.assign(-model.embedding.matrix.numpy())
    assert translator.translate(LINES)[0] != before[0]
    assert translator.search.graph.experimental_get_tracing_count() == 1
    model.embedding.matrix.assign(np.full(model.embedding.matrix.shape, np.nan))
    for ask in (translator.translate, lambda lines: translator.score(lines, lines)):
        with pytest.raises(UserError, match="NaN"):
            ask(["a man"])


def test_all_hypotheses_with_their_scores(model, tokenizer, translator):
    one = dataclasses.replace(translator.config, return_beams=False)
    best = Translator(model, tokenizer, one).translate(LINES)
    for line, translation, expected in zip(LINES, translator.translate(LINES), best, strict=True):
        assert (translation.text, translation.score) == (expected.text, expected.score)
        found = translation.hypotheses
        assert len(found) == 4 * bool(line.strip())
        assert len(expected.hypotheses) == bool(line.strip())
        assert [each.score for each in found] == sorted(each.score for each in found)[::-1]
    [score] = translator.score(["a man"], ["man a"])
    assert score.perplexity == pytest.approx(np.exp(-score.token_log_probs.mean()))


@pytest.mark.parametrize(
    ("targets", "names", "message"),
    [
        (["c"], (), "2 lines, got 1"),
        (["man a", "a " * 8], (), "Pair 2: expected at most 5"),
        (["a " * 8, ""], ["first.tsv:7", "8"], r"first\.tsv:7"),
    ],
)
def test_what_cannot_be_scored(model, tokenizer, targets, names, message):
    short = Translator(model, tokenizer, DecodeConfig(max_input_length=5))
    with pytest.raises(UserError, match=message):
        short.score(["a man", "a"], targets, names)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["a man", "dog \udcff"], "lone surrogate"),
        ("a man", "list of lines"),
        (["a man", b"dog"], "bytes"),
        (["a man", None], "NoneType"),
    ],
)
def test_what_is_not_a_list_of_lines(translator, lines, message):
    for ask in (translator.translate, lambda lines: translator.score(lines, lines)):
        with pytest.raises(UserError, match=message):
            ask(lines)


@pytest.mark.parametrize("bad", [-1, 310])
@pytest.mark.parametrize("ask", ["search", "attention_of_ids"])
def test_ids_outside_the_vocabulary(translator, bad, ask):
    with pytest.raises(UserError, match="ids from 0 to 309"):
        getattr(translator, ask)(np.array([[5, 1]]), np.array([[bad, 1]], np.int32))


class Shouted(Problem):
    """A problem that preprocesses lines and postprocesses outputs."""

    def preprocess(self, source):
        return source.replace("1", "man")

    def postprocess(self, source, output, alignment=None):
        return f"{source}: {output.upper()}"


def test_lines_are_preprocessed_and_outputs_postprocessed(model, tokenizer, translator):
    shouted = Translator(model, tokenizer, translator.config, problem=Shouted())
    [expected], [found] = translator.translate(["a man"]), shouted.translate(["a 1"])
    assert (found.text, found.score) == (expected.text, expected.score)
    assert found.postprocessed == f"a man: {expected.text.upper()}"
    assert expected.postprocessed == expected.text
    [expected], [found] = translator.score(["a man"], ["man a"]), shouted.score(["a 1"], ["man a"])
    assert found.log_prob == expected.log_prob


def test_prefixes(model, tokenizer, translator):
    free = texts(translator.translate(LINES[:4]))
    prefixes = ["cat man", "", "", "tree"]
    begun = translator.translate(LINES[:4], prefixes)
    assert texts(begun)[1:3] == free[1:3]
    for translation, prefix, text in zip(begun, prefixes, free, strict=True):
        assert (translation.text == text) == (not prefix)
        assert all(each.text.startswith(prefix) for each in translation.hypotheses)
    assert begun[0].text != prefixes[0], "the output continues after its prefix"
    for prefixes in (["a"] * 2, ["a"] * 5):
        with pytest.raises(UserError, match="prefix"):
            translator.translate(LINES[:4], prefixes)
    with pytest.raises(UserError, match="prefix"):
        list(translator.translate_stream(LINES, ["a", "b"]))
    short = Translator(model, tokenizer, DecodeConfig(beam_size=1, max_length=4))
    begins = tokenizer.encode(["the small dog sleeps"])[0][:-1]
    found = short.translate(["a man", "a man", ""], ["the small dog sleeps", "the", "the"])
    assert [each.prefix_cut for each in found] == [len(begins) - 3, 0, 0]
    assert found[0].text == tokenizer.decode([begins[:3]])[0]


def test_forbidden_words(model, tokenizer, translator):
    lines = ["the small dog sleeps", "a man sees the tree", "red red house"]
    words = {word for text in texts(translator.translate(lines)) for word in text.split()}
    forbidden = {"red", "the"}
    assert forbidden <= words
    config = translator.config
    restricted = Translator(model, tokenizer, config, forbidden=[*forbidden, "house  man"])
    for translation in restricted.translate(lines):
        for hypothesis in translation.hypotheses:
            assert not forbidden & set(hypothesis.text.split())
            assert "house man" not in hypothesis.text


def test_samples(model, tokenizer):
    config = DecodeConfig(samples=5, return_beams=True, extra_length=6, alpha=0.0, seed=3)
    translator = Translator(model, tokenizer, config)
    together = translator.translate(LINES[:4])
    # The draws depend on the seed and the line's number, not on what else is translated.
    [alone] = translator.translate_stream(LINES[3:4], first_number=3)
    assert texts(alone.hypotheses) == texts(together[3].hypotheses)
    assert [len(set(texts(each.hypotheses))) > 1 for each in together] == [True, True, False, True]
    cold = dataclasses.replace(config, temperature=0.001, top_k=1)
    [found] = Translator(model, tokenizer, cold).translate(LINES[:1])
    assert len(set(texts(found.hypotheses))) == 1


def test_models_that_do_not_fit_together(model, tokenizer):
    shape = dict(num_layers=1, d_model=8, d_ff=8, num_heads=1)
    for models, message in (
        ([model, Transformer(311, **shape)], "vocab_size, got 310, 311"),
        ([model, Transformer(310, self_attention_radius=2, **shape)], "radius, got 0, 2"),
        ([], "at least one model"),
    ):
        with pytest.raises(UserError, match=message):
            Translator(models, tokenizer)


@pytest.fixture(scope="module")
def cut_and_split(model, tokenizer):
    """Translators of lines of at most 10 tokens."""
    config = DecodeConfig(beam_size=1, extra_length=4, max_input_length=10)
    return [
        Translator(model, tokenizer, dataclasses.replace(config, split_long=split_long))
        for split_long in (False, True)
    ]


def test_long_lines_are_cut_or_split(tokenizer, cut_and_split):
    cut, split = cut_and_split
    line = "the small dog sleeps. a man sees the tree. red red house."
    ids = tokenizer.encode([line])[0]
    [kept] = tokenizer.decode([ids[:9]])
    first, short = cut.translate([line, "a man"])
    assert (first.cut, short.cut) == (len(ids) - 10, 0)
    assert texts([first, short]) == texts(cut.translate([kept, "a man"]))
    joined, second = split.translate([line, "a man"])
    parts = split.translate([f"{part}." for part in line.rstrip(".").split(". ")])
    assert joined.text == " ".join(texts(parts))
    assert joined.score == pytest.approx(sum(part.score for part in parts), abs=1e-5)
    assert joined.cut == sum(part.cut for part in parts)
    assert second.text == short.text


def test_cut_and_split_lines_are_aligned_as_they_were_translated(tokenizer, cut_and_split):
    cut, split = cut_and_split
    line = "the small dog sleeps.  a man.sees the tree. red"
    # What was cut off is not there; the end is, of what was kept.
    [kept] = tokenizer.decode([tokenizer.encode([line])[0][:9]])
    found, whole = cut.align([line, kept], cut.translate([line, kept]))
    assert found == whole
    # Each sentence as if it stood alone. One begins within a word.
    found, blank = split.align([line, " "], split.translate([line, " "]))
    sentences = ["the small dog sleeps.", "a man.", "sees the tree.", "red"]
    translations = split.translate(sentences)
    expected, words = [], 0
    for first, translation, pairs in zip(
        [0, 4, 5, 8], translations, split.align(sentences, translations), strict=True
    ):
        expected += [(first + source, words + target) for source, target in pairs]
        words += len(translation.text.split())
    assert (found, blank) == (expected, [])


def test_the_file_of_attention_has_each_line_s_own_weights(model, tokenizer):
    """It is read by NumPy alone; the third line is cut."""
    lines = ["the small 1", " ", "a 1 sees the tree and more than that", *["red house"] * 8]
    targets, most = ["dog small the", "", "tree", *["house red"] * 8], 12
    config = DecodeConfig(max_input_length=most)
    translator = Translator(model, tokenizer, config, problem=Shouted())
    translations = [Translation(text, 0.0) for text in targets]
    file = io.BytesIO(b"".join(attention_records(translator, lines, translations)))
    read = tokenizer.encode([line.replace("1", "man").strip() for line in lines])
    read[2] = np.append(read[2][: most - 1], 1)
    for ids in zip(read, tokenizer.encode(targets), strict=True):
        source, target, *weights = (np.load(file) for _ in range(5))
        assert [source.tolist(), target.tolist()] == list(map(tokenizer.pieces, ids))
        expected = model.attention_weights({"source": ids[0][None], "target": ids[1][None]})
        for found, kind in zip(weights, ("encoder", "decoder", "cross"), strict=True):
            assert found.dtype == np.float32
            np.testing.assert_allclose(found, expected[kind][0], atol=1e-5)
    assert not file.read()


def test_words_are_aligned_by_the_mean_attention_of_the_last_layer_but_one(
    model, untaught, tokenizer
):
    lines, targets = ["the small dog sleeps", "red red house"], ["sleeps dog small", "house red"]
    translations = [Translation(text, 0.0, parts=(text,)) for text in targets]
    one, other, both = (
        Translator(models, tokenizer) for models in ([model], [untaught], [model, untaught])
    )
    # The models have one layer and three.
    first = [each.cross[0].mean(axis=0) for each in one.attention(lines, targets)]
    found = other.attention(lines, targets)
    second = [each.cross[1].mean(axis=0) for each in found]
    means = [(each + more) / 2 for each, more in zip(first, second, strict=True)]
    for translator, weights in ((one, first), (other, second), (both, means)):
        assert translator.align(lines, translations) == [
            word_alignment(each.source, each.target, weight)
            for each, weight in zip(found, weights, strict=True)
        ]
    with pytest.raises(UserError, match="ensemble of 2"):
        both.attention(["a"], ["b"])
    with pytest.raises(UserError, match="2 lines, got 1"):
        one.align(["a", "man"], translations[:1])


def test_a_translation_of_any_length_is_aligned(untaught, tokenizer):
    config = DecodeConfig(beam_size=1, max_input_length=6, min_length=12, extra_length=20)
    translator = Translator(untaught, tokenizer, config)
    [translation] = translator.translate(["a man sees"])
    assert len(tokenizer.encode([translation.text])[0]) > 6
    [pairs] = translator.align(["a man sees"], [translation])
    assert [target for _, target in pairs] == list(range(len(translation.text.split())))
