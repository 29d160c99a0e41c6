"""What a translator does besides the paper's search, with the real model."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.data.problem import Problem
from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.translation import Translation
from t2t_keras.decoding.translator import Translator
from t2t_keras.decoding.word_alignment import word_alignment
from t2t_keras.errors import UserError
from t2t_keras.models.transformer import Transformer

LINES = ["the small dog sleeps", "", "a man sees the tree", "red red house"]


@pytest.fixture(scope="module")
def untaught(tokenizer):
    """Another model of the same vocabulary, of another size."""
    model = Transformer(
        tokenizer.vocab_size, num_layers=1, d_model=16, d_ff=16, num_heads=2, learned_positions=5
    )
    model.build()
    random = np.random.default_rng(0)
    for weight in model.trainable_variables:
        weight.assign(random.normal(1.0 if "gamma" in weight.path else 0.0, 0.5, weight.shape))
    return model


@pytest.fixture(scope="module")
def all_hypotheses(model, tokenizer):
    config = DecodeConfig(beam_size=4, extra_length=4, return_beams=True)
    return Translator(model, tokenizer, config)


def penalty(tokenizer, text):
    return ((5 + len(tokenizer.encode([text])[0])) / 6) ** 0.6


def test_all_hypotheses_with_their_scores(model, tokenizer, all_hypotheses):
    translations = all_hypotheses.translate(LINES)
    best = Translator(model, tokenizer, DecodeConfig(beam_size=4, extra_length=4)).translate(LINES)
    for line, translation, expected in zip(LINES, translations, best, strict=True):
        found = translation.hypotheses
        assert (translation.text, translation.score) == (expected.text, expected.score)
        if not line:
            assert found == ()
            continue
        assert (found[0].text, found[0].score) == (translation.text, translation.score)
        assert [each.score for each in found] == sorted(each.score for each in found)[::-1]
        # Each score is what the whole model gives to that text.
        canonical = [each for each in found if len(each.text.split()) == len(line.split())]
        scores = all_hypotheses.score([line] * len(canonical), [each.text for each in canonical])
        for hypothesis, score in zip(canonical, scores, strict=True):
            expected_score = score.log_prob / penalty(tokenizer, hypothesis.text)
            assert hypothesis.score == pytest.approx(expected_score, abs=1e-4)


def test_score_is_the_whole_model_s_log_probability(model, tokenizer, all_hypotheses):
    targets = ["sleeps dog small the", "", "man", "house red red dog cat"]
    together = all_hypotheses.score(LINES, targets)
    for source, target, found in zip(LINES, targets, together, strict=True):
        ids = [np.array([each], np.int32) for each in tokenizer.encode([source, target])]
        logits = model({"source": ids[0], "target": ids[1]})[0].numpy().astype(np.float64)
        log_probs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        expected = log_probs[np.arange(len(ids[1][0])), ids[1][0]]
        np.testing.assert_allclose(found.token_log_probs, expected, atol=1e-4)
        assert found.log_prob == pytest.approx(expected.sum(), abs=1e-4)


def test_what_cannot_be_scored(all_hypotheses, model, tokenizer):
    with pytest.raises(UserError, match="2 sources and 1 targets"):
        all_hypotheses.score(["a", "b"], ["c"])
    short = Translator(model, tokenizer, DecodeConfig(max_input_length=5))
    with pytest.raises(UserError, match=r"Pair 2 has 10 tokens .* at most 5"):
        short.score(["a man", "a man"], ["man a", "a " * 8])
    with pytest.raises(UserError, match=r"first\.tsv:7 has 10 tokens"):
        short.score(["a man"], ["a " * 8], names=["first.tsv:7"])


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["a man", "dog \udcff"], "lone surrogate"),
        ("a man", "A list of lines is expected; one text came: 'a man'"),
        (b"a man", "A list of lines is expected"),
        (["a man", b"dog"], "bytes came"),
        (["a man", None], "NoneType came"),
    ],
)
def test_what_is_no_list_of_lines(all_hypotheses, lines, message):
    for ask in (all_hypotheses.translate, lambda lines: all_hypotheses.score(lines, lines)):
        with pytest.raises(UserError, match=message):
            ask(lines)


def test_ids_outside_the_vocabulary(all_hypotheses):
    good = np.array([[5, 1]], np.int32)
    for bad in ([[-1, 1]], [[310, 1]]):
        bad = np.array(bad, np.int32)
        with pytest.raises(UserError, match="The vocabulary has the ids 0 to 309; "):
            all_hypotheses.search(bad)
        with pytest.raises(UserError, match="The vocabulary has the ids 0 to 309; "):
            all_hypotheses.search(good, prefixes=bad)
        with pytest.raises(UserError, match="The vocabulary has the ids 0 to 309; "):
            all_hypotheses.attention_of_ids(good, bad)


def test_a_problem_prepares_lines_and_finishes_outputs(model, tokenizer, all_hypotheses):
    """Its lines come with digits for words; its outputs are shouted, after the line."""

    class Shouted(Problem):
        def prepared(self, source):
            return source.replace("1", "man")

        def finished(self, source, output, alignment=None):
            return f"{source}: {output.upper()}"

    plain = all_hypotheses
    shouted = Translator(model, tokenizer, plain.config, problem=Shouted())
    [expected], [found] = plain.translate(["a man"]), shouted.translate(["a 1"])
    assert (found.text, found.score) == (expected.text, expected.score)
    assert found.finished == f"a man: {expected.text.upper()}"
    assert expected.finished == expected.text
    [expected], [found] = plain.score(["a man"], ["man a"]), shouted.score(["a 1"], ["man a"])
    assert found.log_prob == expected.log_prob
    assert found.perplexity == pytest.approx(np.exp(-found.token_log_probs.mean()))
    [attended] = shouted.attention(["a 1"], ["man a"])
    assert attended.source == plain.attention(["a man"], ["man a"])[0].source


def test_a_prefix_that_is_longer_than_the_output_may_be(model, tokenizer):
    translator = Translator(model, tokenizer, DecodeConfig(beam_size=1, max_length=4))
    begins = tokenizer.encode(["the small dog sleeps"])[0][:-1]
    found = translator.translate(["a man", "a man", ""], ["the small dog sleeps", "the", "the"])
    assert [each.prefix_cut for each in found] == [len(begins) - 3, 0, 0]
    assert found[0].text == tokenizer.decode([begins[:3]])[0]


def test_prefixes(all_hypotheses):
    free = [each.text for each in all_hypotheses.translate(LINES)]
    prefixes = ["cat man", "", "", "tree"]
    begun = all_hypotheses.translate(LINES, prefixes)
    for translation, prefix, text in zip(begun, prefixes, free, strict=True):
        if prefix:
            assert translation.text != text
            assert all(each.text.startswith(prefix) for each in translation.hypotheses)
        else:
            assert translation.text == text
    assert begun[0].text != prefixes[0], "it goes on after what it must begin with"
    for count in (2, 5):
        with pytest.raises(UserError, match=rf"4 lines came with {count} .* a prefix"):
            all_hypotheses.translate(LINES, ["a"] * count)
    with pytest.raises(UserError, match="2 prefixes for at least 4 lines"):
        list(all_hypotheses.translate_stream(LINES, ["a", "b"]))


def test_forbidden_words(model, tokenizer, all_hypotheses):
    words = {word for each in all_hypotheses.translate(LINES) for word in each.text.split()}
    forbidden = {"red", "the"}
    assert forbidden <= words
    translator = Translator(
        model, tokenizer, all_hypotheses.config, forbidden=[*forbidden, "house  man"]
    )
    for translation in translator.translate(LINES):
        for hypothesis in translation.hypotheses:
            assert not forbidden & set(hypothesis.text.split())
            assert "house man" not in hypothesis.text


def test_samples(model, tokenizer):
    config = DecodeConfig(samples=5, return_beams=True, extra_length=6, alpha=0.0, seed=3)
    translator = Translator(model, tokenizer, config)
    together = translator.translate(LINES)
    # The draws depend on the seed and the line's number, not on what else is translated.
    alone = list(translator.translate_stream(LINES[3:], first_number=3))
    texts = [[each.text for each in translation.hypotheses] for translation in together]
    assert [each.text for each in alone[0].hypotheses] == texts[3]
    assert [len(set(each)) > 1 for each in texts] == [True, False, True, True]
    cold = Translator(
        model, tokenizer, DecodeConfig(samples=3, return_beams=True, temperature=0.001, top_k=1)
    ).translate(LINES[:1])
    greedy = Translator(model, tokenizer, DecodeConfig(beam_size=1)).translate(LINES[:1])
    assert {each.text for each in cold[0].hypotheses} == {greedy[0].text}


def test_an_ensemble_is_the_mean_of_probabilities(
    model, untaught, tokenizer, padded, plain_beam_search
):
    translator = Translator(
        [model, untaught], tokenizer, DecodeConfig(beam_size=3, alpha=1.0, extra_length=1)
    )
    lines = [line for line in LINES if line]
    sources = padded(tokenizer.encode(lines))

    @tf.function(input_signature=[tf.TensorSpec([1, None], tf.int32)] * 2)
    def probabilities(source, target):
        inputs = {"source": source, "target": target}
        return (tf.nn.softmax(model(inputs)) + tf.nn.softmax(untaught(inputs)))[0] / 2

    ids, scores = translator.search(sources)
    for source, [found], [score] in zip(sources, ids.numpy(), scores.numpy(), strict=True):
        source = source[source != 0]

        def following(prefix, source=source):
            target = np.array([[*prefix, 1]], np.int32)
            return np.log(probabilities(source[None], target)[-1].numpy().astype(np.float64))

        expected, expected_score = plain_beam_search(following, len(source) + 1, 1.0, 3)[0]
        assert tuple(found[found != 0].tolist()) == expected
        assert score == pytest.approx(expected_score, abs=1e-4)
    [scored] = translator.score(lines[:1], ["dog small"])
    target = tokenizer.encode(["dog small"])[0]
    expected = np.log(probabilities(sources[:1][sources[:1] != 0][None], target[None]).numpy())
    np.testing.assert_allclose(
        scored.token_log_probs, expected[np.arange(len(target)), target], atol=1e-4
    )


def test_models_that_do_not_fit_together(model, tokenizer):
    shape = dict(num_layers=1, d_model=8, d_ff=8, num_heads=1)
    with pytest.raises(UserError, match="same vocab_size; 310, 311 came"):
        Translator([model, Transformer(311, **shape)], tokenizer)
    with pytest.raises(UserError, match="same self_attention_radius; 0, 2 came"):
        Translator([model, Transformer(310, self_attention_radius=2, **shape)], tokenizer)
    with pytest.raises(UserError, match="at least one model"):
        Translator([], tokenizer)


def test_long_lines_are_cut_or_split(model, tokenizer):
    line = "the small dog sleeps. a man sees the tree. red red house."
    tokens = len(tokenizer.encode([line])[0])
    cut = Translator(model, tokenizer, DecodeConfig(max_input_length=10, beam_size=2))
    whole = Translator(model, tokenizer, DecodeConfig(beam_size=2))
    split = Translator(
        model, tokenizer, DecodeConfig(max_input_length=10, beam_size=2, split_long=True)
    )
    [first, short] = cut.translate([line, "a man"])
    assert (first.cut, short.cut) == (tokens - 10, 0)
    kept = tokenizer.decode([tokenizer.encode([line])[0][:9]])[0]
    assert first.text == whole.translate([kept])[0].text
    [joined, short] = split.translate([line, "a man"])
    parts = split.translate([f"{part}." for part in line.rstrip(".").split(". ")])
    assert joined.text == " ".join(part.text for part in parts)
    assert joined.score == pytest.approx(sum(part.score for part in parts), abs=1e-5)
    assert (joined.cut, short.text) == (
        sum(part.cut for part in parts),
        whole.translate(["a man"])[0].text,
    )


def test_cut_and_split_lines_are_aligned_as_they_were_translated(model, tokenizer):
    line = "the small dog sleeps.  a man.sees the tree. red"

    def aligned(translator, lines):
        translations = translator.translate(lines)
        return translations, translator.align(lines, translations)

    # What was cut off is not there; the end is, of what was kept.
    config = DecodeConfig(beam_size=1, extra_length=4, max_input_length=10)
    translator = Translator(model, tokenizer, config)
    ids = tokenizer.encode([line])[0]
    [kept] = tokenizer.decode([ids[:9]])
    translations, [cut, whole] = aligned(translator, [line, kept])
    assert [translation.cut for translation in translations] == [len(ids) - 10, 0]
    assert cut == whole
    # Each sentence as if it stood alone. One begins within a word.
    translator = Translator(model, tokenizer, dataclasses.replace(config, split_long=True))
    _, [split, blank] = aligned(translator, [line, " "])
    sentences = ["the small dog sleeps.", "a man.", "sees the tree.", "red"]
    translations, alone = aligned(translator, sentences)
    expected, words = [], 0
    for first, translation, pairs in zip([0, 4, 5, 8], translations, alone, strict=True):
        expected += [(first + source, words + target) for source, target in pairs]
        words += len(translation.text.split())
    assert split == expected
    assert blank == []


def test_a_translation_of_any_length_is_aligned(untaught, tokenizer):
    config = DecodeConfig(beam_size=1, max_input_length=6, min_length=12, extra_length=20)
    translator = Translator(untaught, tokenizer, config)
    translations = translator.translate(["a man sees"])
    assert len(tokenizer.encode([translations[0].text])[0]) > 6
    [pairs] = translator.align(["a man sees"], translations)
    assert [target for _, target in pairs] == list(range(len(translations[0].text.split())))


def test_attention_of_each_pair(model, tokenizer, all_hypotheses):
    texts = ["sleeps dog small the", "", "tree the sees man a", "house red red"]
    for source, target, found in zip(
        LINES, texts, all_hypotheses.attention(LINES, texts), strict=True
    ):
        ids = [np.array([each], np.int32) for each in tokenizer.encode([source, target])]
        expected = model.attention_weights({"source": ids[0], "target": ids[1]})
        for name in ("encoder", "decoder", "cross"):
            np.testing.assert_allclose(getattr(found, name), expected[name][0], atol=1e-5)
        assert found.target[-1] == "</s>"
        assert "".join(found.source[:-1]).replace("▁", " ").strip() == source
    # The model has learned to turn the order around, so it must look there.
    [found] = all_hypotheses.attention(LINES[:1], texts[:1])
    alignment = word_alignment(found.source, found.target, found.cross[0].mean(axis=0))
    assert {(3, 0), (0, 3)} & set(alignment)


def test_lines_are_aligned_by_the_last_layer_but_one(tokenizer):
    keras.utils.set_random_seed(3)
    model = Transformer(tokenizer.vocab_size, num_layers=3, d_model=8, d_ff=8, num_heads=2)
    model.build()
    translator = Translator(model, tokenizer)
    lines, texts = ["the small dog sleeps", "red red house"], ["sleeps dog small", "house red"]
    translations = [Translation(text, 0.0, parts=(text,)) for text in texts]
    assert translator.align(lines, translations) == [
        word_alignment(each.source, each.target, each.cross[1].mean(axis=0))
        for each in translator.attention(lines, texts)
    ]


def test_attention_is_one_model_s(model, tokenizer):
    several = Translator([model, model], tokenizer)
    with pytest.raises(UserError, match="ensemble of 2"):
        several.attention(["a"], ["b"])


def test_an_ensemble_aligns_by_its_mean_attention(model, untaught, tokenizer):
    lines, texts = ["the small dog sleeps"], ["sleeps dog small the"]
    translations = [Translation(text, 0.0, parts=(text,)) for text in texts]
    one, other, both = (
        Translator(models, tokenizer) for models in ([model], [untaught], [model, untaught])
    )
    [[found], [more]] = (each.attention(lines, texts) for each in (one, other))
    mean = (found.cross[0].mean(axis=0) + more.cross[0].mean(axis=0)) / 2
    assert both.align(lines, translations) == [word_alignment(found.source, found.target, mean)]


def test_every_line_is_aligned_with_its_own_translation(all_hypotheses):
    with pytest.raises(UserError, match=r"2 lines came with 1 .* a translation"):
        all_hypotheses.align(["a", "man"], all_hypotheses.translate(["a"]))


def test_coverage_is_the_attention_to_the_source(model, tokenizer, padded):
    """What a step reports is the mean over layers and heads of the whole model's attention."""
    beta = 2.0
    config = DecodeConfig(beam_size=3, extra_length=2, coverage_penalty=beta, alpha=0.6)
    translator = Translator(model, tokenizer, config)
    sources = padded(tokenizer.encode([line for line in LINES if line]))
    ids, scores = translator.search(sources)
    for source, [found], [score] in zip(sources, ids.numpy(), scores.numpy(), strict=True):
        pair = {"source": source[source != 0][None], "target": found[found != 0][None]}
        length = len(pair["target"][0])
        logits = model(pair)[0].numpy().astype(np.float64)
        log_probs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        log_prob = log_probs[np.arange(length), pair["target"][0]].sum()
        attended = model.attention_weights(pair)["cross"][0].numpy().mean(axis=(0, 1)).sum(axis=0)
        expected = log_prob / ((5 + length) / 6) ** 0.6
        expected += beta * np.log(np.minimum(attended, 1)).sum()
        assert score == pytest.approx(expected, abs=1e-3)
