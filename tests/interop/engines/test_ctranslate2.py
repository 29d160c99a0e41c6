"""CTranslate2 as an engine gives what Keras's engine gives, and names what it has not."""

import dataclasses
import shutil
import sys

import numpy as np
import pytest
from refusals import refused

from t2t_keras.data.problem import make_problem
from t2t_keras.decoding.confidence import confidences
from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.translator import Translator
from t2t_keras.serving.formats import write_format

LINES = ["the small dog sleeps", "", "the woman sees the dog and the red tree", "a man", "  "]
LONG = "the big dog eats. " * 20
SETTINGS = dict(beam_size=3, alpha=0.0, extra_length=30, max_input_length=40)


@pytest.fixture(scope="module")
def expected(tokenizer, random_model):
    """The translator of Keras's engine."""
    options = dict(d_model=16, pre_norm=True, positions="learned", max_positions=40)
    model = random_model(1, tokenizer.vocab_size, num_layers=1, **options)
    # The later, the likelier is the end: outputs have it before they must.
    table, end = model.target_positions.table, model.embedding.table.embeddings[1]
    table.assign(table.numpy() + np.arange(40)[:, None] * end)
    problem = make_problem("translate_ende_toy")
    return Translator(model, tokenizer, DecodeConfig(**SETTINGS), problem=problem)


@pytest.fixture(scope="module")
def folder(expected, tmp_path_factory):
    return write_format("ctranslate2", expected, tmp_path_factory.mktemp("export") / "1", "float32")


@pytest.fixture
def load(folder):
    """load(**settings): the translator of the engine."""
    return lambda **settings: Translator.from_run(folder, None, settings, engine="ctranslate2")


def texts(translations):
    return [translation.text for translation in translations]


def scores(translations):
    return pytest.approx([translation.score for translation in translations], abs=1e-4)


def test_next_symbols_are_the_likeliest_of_all(expected, load):
    [source] = expected.prepare(LINES[:1])
    ids = source.parts[0].ids
    prefix = np.int32(expected.tokenizer.encode(["the big"])[0][:-1])
    symbols = [number for number in range(expected.tokenizer.vocab_size) if number > 1]
    targets = [np.append(prefix, np.int32([symbol, 1])) for symbol in symbols]
    scored = dict(expected.engine.log_probs([ids] * len(targets), targets))
    log_probs = [scored[row][len(prefix)] for row in range(len(targets))]
    likeliest = np.array(symbols)[np.argsort(log_probs)[::-1][:6]].tolist()
    for translator in (expected, load()):
        assert translator.engine.next_symbols(ids, prefix, 6) == likeliest
        assert len(translator.engine.next_symbols(ids, prefix[:0], 1000)) == len(symbols)


def test_confidences_are_those_of_keras(expected, load):
    translations = expected.translate(LINES)
    actual, wanted = (
        confidences(translator, LINES, translations) for translator in (load(), expected)
    )
    assert [confidence.words for confidence in actual] == [
        pytest.approx(confidence.words, rel=1e-3) for confidence in wanted
    ]
    assert [confidence.whole for confidence in actual] == pytest.approx(
        [confidence.whole for confidence in wanted], 1e-4
    )


def test_translations(expected, load):
    lines = [*LINES, LONG]
    translations, wanted = load().translate(lines), expected.translate(lines)
    assert texts(translations) == texts(wanted)
    assert len(set(texts(translations))) > 3
    assert [translation.score for translation in translations] == scores(wanted)
    assert [(translation.cut, len(translation.hypotheses)) for translation in translations] == [
        (translation.cut, len(translation.hypotheses)) for translation in wanted
    ]
    together = load(batches_at_once=2, batch_tokens=60, lines_at_once=3)
    assert texts(together.translate(lines)) == texts(wanted)


def test_prefixes_and_other_lengths(expected, load):
    settings = dict(beam_size=1, min_length=6, max_length=9)
    config = dataclasses.replace(expected.config, **settings)
    other = Translator(expected.models, expected.tokenizer, config)
    prefixes = ["cat man", "", "", "the small dog sleeps eats house", ""]
    assert texts(load(**settings).translate(LINES)) == texts(other.translate(LINES))
    actual, wanted = (
        translator.translate(LINES, prefixes) for translator in (load(**settings), other)
    )
    assert texts(actual) == texts(wanted)
    assert [translation.prefix_cut for translation in actual] == [
        translation.prefix_cut for translation in wanted
    ]
    [source] = expected.tokenizer.encode(LINES[:1])
    short = load(beam_size=1, min_length=20, max_length=4).engine
    [[output]] = short.outputs([source], [source[:0]], [0])
    assert len(output.ids) == 3, "with its end as long as allowed"


@pytest.mark.parametrize(
    ("settings", "prefix"),
    [
        (dict(alpha=0.9, beam_size=4, return_beams=True), ""),
        (dict(alpha=0.9, beam_size=4, return_beams=True), "cat man"),
        (dict(alpha=0.9, beam_size=4, return_beams=True, min_length=9), ""),
        (dict(alpha=0.0, samples=4, return_beams=True, top_k=3), ""),
    ],
)
def test_scores_are_ours(expected, load, settings, prefix):
    """The log-probabilities of whole outputs, over our own length penalty."""
    [source] = expected.tokenizer.encode(LINES[:1])
    begin = expected.tokenizer.encode([prefix])[0][:-1]
    [outputs] = load(**settings).engine.outputs([source], [begin], [0])
    targets = [np.int32([*output.ids, 1]) for output in outputs]
    assert {tuple(target[: len(begin)]) for target in targets} == {tuple(begin)}
    assert len(outputs) == 4
    # Two samples may be the same.
    assert "samples" in settings or len(set(map(tuple, targets))) == 4
    actual = [output.score for output in outputs]
    for number, log_probs in expected.engine.log_probs([source] * 4, targets):
        penalty = ((5 + len(log_probs)) / 6) ** settings["alpha"]
        assert actual[number] == pytest.approx(log_probs.sum() / penalty, abs=1e-4)
    assert "samples" in settings or actual == sorted(actual, reverse=True)


def test_given_pairs(expected, load):
    pairs = ["a man sees", "the", "dog"], ["red red house", "", "the small dog sleeps"]
    for pair_score, wanted in zip(load().score(*pairs), expected.score(*pairs), strict=True):
        np.testing.assert_allclose(pair_score.token_log_probs, wanted.token_log_probs, atol=1e-4)
    translations = expected.translate(LINES)
    assert load().align(LINES, translations) == expected.align(LINES, translations)


def test_samples(load):
    settings = dict(samples=40, return_beams=True, extra_length=1, alpha=0.0)
    [greedy] = load(beam_size=1, extra_length=1).translate(LINES[:1])
    [cold] = load(**settings, temperature=0.001).translate(LINES[:1])
    assert set(texts(cold.hypotheses)) == {greedy.text}
    [drawn] = load(**settings, top_k=2).translate(LINES[:1])
    assert len(set(texts(drawn.hypotheses))) > 10
    [likeliest] = load(**settings, top_p=1e-6).translate(LINES[:1])
    assert set(texts(likeliest.hypotheses)) == {greedy.text}
    # There are not so many symbols.
    assert len(load(samples=3, top_k=9000).translate(LINES[:1])[0].hypotheses) == 1


def test_a_source_without_pieces(expected, load):
    """CTranslate2 gives nothing for it; its score is ours."""
    [source] = expected.tokenizer.encode(LINES[:1])
    end, none = source[-1:], source[:0]
    [[output, *_], of_source] = load().engine.outputs([end, source], [none, none], [0, 1])
    [(_, log_probs)] = expected.engine.log_probs([end], [end])
    assert (output.ids, output.score) == ([], pytest.approx(log_probs[0], abs=1e-4))
    assert of_source == load().engine.outputs([source], [none], [1])[0]
    [(_, weights)] = load().engine.cross_attention([end], [source])
    assert weights.size == 0


def test_what_an_engine_searches_at_once(load):
    assert load(batches_at_once=3).engine.batches_at_once == 3
    assert load(batches_at_once=3, lines_at_once=1).engine.batches_at_once == 1
    for settings in (dict(samples=2), dict(beam_size=3, return_beams=True)):
        engine = load(**settings).engine
        assert engine.with_all_hypotheses() is engine
    every = load(beam_size=3).engine.with_all_hypotheses()
    assert every.config == dataclasses.replace(load(beam_size=3).config, return_beams=True)


@pytest.mark.parametrize(
    ("settings", "options", "code", "named"),
    [
        ("coverage_penalty=0.2,xla=true", {}, "not_supported", ["coverage_penalty", "xla"]),
        ("samples=2,seed=3", {}, "not_supported", ["seed"]),
        ("weights_dtype=bfloat16", {}, "not_supported", ["weights_dtype"]),
        ("max_length=1", {}, "not_supported", ["max_length=1"]),
        (
            "",
            dict(forbidden=["cat"], ensemble=["run"]),
            "not_supported",
            ["ensemble", "forbidden"],
        ),
        ("", dict(checkpoint_path="run/model.ckpt-1"), "not_supported", ["checkpoint_path"]),
        ("", dict(engine="marian"), "unknown_name", ["engine", "marian"]),
    ],
)
def test_what_it_has_not(folder, settings, options, code, named):
    with refused(code, *named):
        Translator.from_run(folder, decode_hparams=settings, **dict(engine="ctranslate2") | options)


def test_attention(load):
    with refused("not_supported"):
        load().attention(["a"], ["b"])


def test_what_cannot_be_loaded(folder, tmp_path, monkeypatch):
    def check(code, *names):
        with refused(code, *names):
            Translator.from_run(tmp_path / "out", engine="ctranslate2")

    check("no_export", tmp_path / "out")
    shutil.copytree(folder, tmp_path / "out")
    (tmp_path / "out" / "model.bin").write_bytes(b"damaged")
    check("damaged_export", tmp_path / "out")
    (tmp_path / "out" / "vocab.model").write_bytes(b"damaged")
    check("not_sentencepiece", tmp_path / "out" / "vocab.model")
    record = tmp_path / "out" / "t2t_keras.json"
    record.write_text(record.read_text().replace('"beam_size"', '"beams"'))
    check("unknown_name", record, "beams")
    record.write_text('{"problem": "translate_ende_toy"}')
    check("damaged_file", record, "'checkpoint', 'decoding', 'dtype', 'positions'")
    shutil.copytree(folder, tmp_path / "out", dirs_exist_ok=True)
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    check("missing_package", "'.[ctranslate2]'")


def test_nan(expected, tmp_path):
    model = expected.models[0]
    before = model.get_weights()
    try:
        model.set_weights([np.full_like(weight, np.nan) for weight in before])
        folder = write_format("ctranslate2", expected, tmp_path / "out", "float32")
    finally:
        model.set_weights(before)
    with refused("not_finite"):
        Translator.from_run(folder, engine="ctranslate2").translate(["a man"])
