"""Lines of any content are read, counted and encoded, or named in an error."""

import contextlib
import sys
import unicodedata

import numpy as np
import pytest
from refusals import refused

from t2t_keras.data.problem import Problem
from t2t_keras.decoding.jobs.line_job import resolve_outputs, run_line_job
from t2t_keras.decoding.source_text import (
    check_lengths,
    check_lines,
    encode_pairs,
    ends_sentence,
    join_sentences,
    read_sources,
    sentence_splitter,
    sentences,
)
from t2t_keras.text.words import WordTokenizer

LINES, MOST = 400, 40


@pytest.fixture(scope="module")
def lines():
    """Random bytes, and text of every Unicode category, controls, surrogates and long words."""
    random = np.random.default_rng(0)
    categories = {unicodedata.category(chr(code)): chr(code) for code in range(sys.maxunicode + 1)}
    alphabet = [*categories.values(), *"\r\t\x00\ufeff\u2028\ud800a "]
    lines = [random.bytes(random.integers(0, 60)) for _ in range(LINES // 10)]
    for number in range(LINES):
        text = "".join(random.choice(alphabet, 2000 if number % 50 == 1 else number % 30))
        lines.append(text.encode("utf-8", "surrogatepass"))
    return [line.replace(b"\n", b".") for line in lines]


def test_every_line_is_counted_or_named(lines, tokenizer, tmp_path):
    def work(texts, number, progress):
        kept.extend(texts)
        return {"numbers": map(str, range(number, number + len(texts)))}, {}

    def run(content):
        (tmp_path / "in").write_bytes(b"".join(line + b"\n" for line in content))
        kept.clear()
        outputs = resolve_outputs([tmp_path / "in"], {"numbers": tmp_path / "out"})
        return run_line_job(tmp_path / "in", outputs, {}, work, LINES).lines

    kept, good = [], []
    for line in lines:
        try:
            line.decode("utf-8")
            good.append(line)
        except UnicodeDecodeError:
            if len(good) % 50 == 1:
                with refused("not_utf8", f"in:{len(good) + 1} "):
                    run([*good, line])
    assert LINES // 4 < len(good) < LINES
    assert run(good) == len(good) == len(kept)
    assert len((tmp_path / "out").read_text().split("\n")) == len(good) + 1
    for split_long in (False, True):
        sources = read_sources(kept, tokenizer, MOST, split_long)
        for text, source in zip(kept, sources, strict=True):
            assert bool(source.parts) == bool(text.strip())
            assert all(1 < len(part) <= MOST and part[-1] == 1 for part in source.parts)
            assert len(source.parts) == len(source.first_words)


@pytest.mark.parametrize(
    ("source", "target", "is_refused"), [(4, 5, False), (5, 6, True), (6, 1, True)]
)
def test_the_longer_side_of_a_pair_has_a_limit(source, target, is_refused):
    encoded = [[np.zeros(size)] for size in (source, target)]
    with refused("too_long") if is_refused else contextlib.nullcontext():
        check_lengths(encoded, 5)


@pytest.mark.parametrize(("names", "name"), [((), "2: "), (["x:1", "x:2"], "x:2: ")])
def test_the_pair_that_is_too_long_is_named(names, name):
    with refused("too_long", name, "5", "9"):
        check_lengths([[np.zeros(1), np.zeros(9)], [np.zeros(1)] * 2], 5, names)


WORDS = WordTokenizer.of("<pad> </s> <unk> <2de> One two. Three four. \u00e9".split())


@pytest.mark.parametrize(
    ("most", "split_long", "parts", "first_words", "cut"),
    [
        (6, True, [[3, 4, 5, 6, 7, 1]], [0], 0),
        (5, True, [[3, 4, 5, 1], [3, 6, 7, 1]], [0, 2], 0),
        (3, True, [[3, 4, 1], [3, 6, 1]], [0, 2], 2),
        (5, False, [[3, 4, 5, 6, 1]], [0], 1),
    ],
)
def test_a_long_line_is_split_or_cut(most, split_long, parts, first_words, cut):
    """Each sentence has the words that its line begins with, which are counted once."""
    line = "<2de> One two. Three four."
    [source] = read_sources([line], WORDS, most, split_long, "en", lambda line: "<2de> ")
    assert [part.tolist() for part in source.parts] == parts
    assert (source.first_words, source.cut, source.repeated) == (first_words, cut, 1)
    last = len(parts) - 1
    assert [source.word(last, number) for number in (0, 1, 2)] == [0, 2 * last + 1, 2 * last + 2]


def test_a_sentence_inside_a_word_is_of_that_word():
    line = "\u4e00\u3002\u4e8c x\u3002\u4e09"
    [source] = read_sources([line], WORDS, 2, True, "zh")
    assert (source.first_words, source.texts) == (
        [0, 0, 1],
        ["\u4e00\u3002", "\u4e8c x\u3002", "\u4e09"],
    )


@pytest.mark.parametrize(
    ("lines", "code", "named"),
    [
        ("ab", "wrong_type", "'ab'"),
        (b"ab", "wrong_type", "b'ab'"),
        ([b"ab"], "wrong_type", "bytes"),
        (["a", "\ud800"], "invalid_text", "'\\ud800'"),
    ],
)
def test_lines_are_a_list_of_text(lines, code, named):
    with refused(code, named):
        check_lines(lines)


def test_pairs_are_encoded_in_nfc():
    assert [
        side[0].tolist() for side in encode_pairs(["e\u0301"], ["e\u0301"], WORDS, Problem())
    ] == [[8, 1]] * 2


def test_sentences_are_joined_by_the_white_space_of_their_sources():
    assert join_sentences(["a", "b", "c", "d\u3002", "e"], ["", "\n", " ", ""]) == "a b\nc d\u3002e"
    assert join_sentences(["", "b"], [""]) == "b"


@pytest.mark.parametrize(
    ("language", "parts"),
    [
        ("en", ["It is large.[7] ", "This was so."]),
        ("en", ["It is large.[7][8] ", "This was so."]),
        ("en", ["See vol.[7]  of it."]),
        ("en", ["He said \u201cGo.\u201d[a] ", "Then he left.\u00b9 ", "And so on.*"]),
        ("en", ["Smith et al. [7] said so."]),
        ("en", ["Version 2.[x] is out."]),
        ("en", ["Wait\u2026 ", "Then he left."]),
        ("en", ["He left. ", "(It was so.) ", "She stayed."]),
        ("de", ["Das ist gro\u00df.[7] ", "Dies war so."]),
        (
            "ja",
            [
                "\u672c\u3067\u3059\uff0e",
                "\u5024\u306f\uff13\uff0e\uff15\u3067\u3059\uff61",
                "\u672c\u3067\u3059\uff0e",
            ],
        ),
        (
            "am",
            [
                "\u12ed\u1205 \u1275\u120d\u1245 \u1290\u12cd\u1362",
                "\u12ed\u1205 \u1275\u1295\u123d \u1290\u12cd\u1362",
            ],
        ),
        (
            "hi",
            [
                "\u092f\u0939 \u092c\u095c\u093e \u0939\u0948\u0964",
                "\u092f\u0939 \u091b\u094b\u091f\u093e \u0939\u0948\u0964 ",
                "\u0939\u093e\u0901\u0964",
            ],
        ),
        (
            "ur",
            [
                "\u06cc\u06c1 \u0628\u0691\u0627 \u06c1\u06d2\u06d4",
                "\u06cc\u06c1 \u0686\u06be\u0648\u0679\u0627 \u06c1\u06d2\u06d4",
            ],
        ),
        (
            "ar",
            [
                "\u0647\u0644 \u0647\u0630\u0627 \u0643\u0628\u064a\u0631\u061f ",
                "\u0646\u0639\u0645.",
            ],
        ),
        (
            "km",
            ["\u1793\u17c1\u17c7\u1792\u17c6\u17d4 ", "\u1793\u17c1\u17c7\u178f\u17bc\u1785\u17d4"],
        ),
    ],
)
def test_where_sentences_end(language, parts):
    assert sentence_splitter(language)("".join(parts)) == parts
    assert all(ends_sentence(part.strip()) for part in parts)


def test_sentences_end_alike_in_long_texts():
    text = "It is large.[7] This was so. (And so on.) " * 300
    assert "".join(sentence_splitter("en")(text)) == text
    assert len(sentence_splitter("en")(text)) == 900


@pytest.mark.parametrize("space", [" ", "  ", "\u00a0", "\u2028", "\u3000"])
def test_sentences(space):
    expected = ["A man sleeps.", "Why?", "A dog!"]
    assert sentences(space.join(expected), "en") == expected
    # Neither does a capital before such a space end the process.
    assert sentences(f"Plan B{space}. Then README.Md", "en") == [
        f"Plan B{space}.",
        "Then README.Md",
    ]
