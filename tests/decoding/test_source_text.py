"""Lines of any content are read, counted and encoded, or named in an error."""

import contextlib
import sys
import unicodedata

import numpy as np
import pytest
from refusals import refused

from t2t_keras.data.problem import Problem
from t2t_keras.decoding.jobs.line_job import resolve_outputs, run_line_job
from t2t_keras.decoding.source_text import check_lengths, check_lines, encode_pairs, read_sources
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
