"""Lines of any content are read, counted and encoded, or named in an error."""

import contextlib
import sys
import unicodedata
from types import SimpleNamespace

import numpy as np
import pytest
from refusals import refused
from words import Words

from t2t_keras.data.problem import Problem
from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.line_job import resolve_outputs, run_line_job
from t2t_keras.decoding.lines import (
    check_lengths,
    check_lines,
    encode_lines,
    encode_pairs,
    prepare_line,
)

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


def read(lines, tokenizer, most, split_long, problem=None):
    config = DecodeConfig(max_input_length=most, split_long=split_long)
    reader = SimpleNamespace(tokenizer=tokenizer, config=config, problem=problem or Problem())
    read = [prepare_line(line, ()) for line in lines]
    encode_lines(read, reader)
    return read


def test_every_line_is_counted_or_named(lines, tokenizer, tmp_path):
    def work(texts, number, progress):
        printed.extend(texts)
        return {"numbers": map(str, range(number, number + len(texts)))}, {}

    def run(content):
        (tmp_path / "in").write_bytes(b"".join(line + b"\n" for line in content))
        printed.clear()
        outputs = resolve_outputs([tmp_path / "in"], {"numbers": tmp_path / "out"})
        return run_line_job(tmp_path / "in", outputs, {}, work, LINES).lines

    printed, good = [], []
    for line in lines:
        try:
            line.decode("utf-8")
            good.append(line)
        except UnicodeDecodeError:
            if len(good) % 50 == 1:
                with refused("not_utf8", f"in:{len(good) + 1} "):
                    run([*good, line])
    assert LINES // 4 < len(good) < LINES
    assert run(good) == len(good) == len(printed)
    assert len((tmp_path / "out").read_text().split("\n")) == len(good) + 1
    for split_long in (False, True):
        for text, line in zip(printed, read(printed, tokenizer, MOST, split_long), strict=True):
            assert bool(line.parts) == bool(text.strip())
            assert all(1 < len(part.ids) <= MOST and part.ids[-1] == 1 for part in line.parts)


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


WORDS = Words.of("<pad> </s> <unk> <2de> One two. Three four. \u00e9".split())


@pytest.mark.parametrize(
    ("most", "split_long", "parts", "first_words", "cut"),
    [
        (6, True, [[3, 4, 5, 6, 7, 1]], [0], 0),
        (5, True, [[3, 4, 5, 1], [3, 6, 7, 1]], [0, 2], 0),
        (3, True, [[3, 4, 1], [3, 6, 1]], [0, 2], 2),
        (5, False, [[3, 4, 5, 6, 1]], [0], 1),
    ],
)
@pytest.mark.parametrize("adds", [False, True])
def test_a_long_line_is_split_or_cut(most, split_long, parts, first_words, cut, adds):
    """Each sentence has the words in front, the line's own or only the model's."""

    class Told(Problem):
        def preprocess(self, source):
            return f"<2de> {source}" if adds else source

        def words_in_front(self, source):
            return "<2de> "

    text = "One two. Three four."
    [line] = read([text if adds else f"<2de> {text}"], WORDS, most, split_long, Told())
    assert [part.ids.tolist() for part in line.parts] == parts
    own = 0 if adds else 1
    assert [part.first_word - own for part in line.parts] == first_words
    assert line.cut == cut
    pairs = [(0, 5), (1, 6), (2, 7)]
    shifted = [(own + first_words[-1], 6), (own + first_words[-1] + 1, 7)]
    assert line.parts[-1].words_of_line(pairs) == [*pairs[:own], *shifted]
    assert line.parts[-1].words_of_source(pairs) == [(0, 6), (1, 7)]


def test_a_blank_line_has_no_parts():
    class Told(Problem):
        def preprocess(self, source):
            return f"<2de> {source}"

    assert [line.parts for line in read(["", " "], WORDS, 5, False, Told())] == [[], []]


def test_a_sentence_inside_a_word_is_of_that_word():
    text = "\u4e00\u3002\u4e8c x\u3002\u4e09"
    [line] = read([text], WORDS, 2, True, Problem(source_language="zh"))
    assert [(part.first_word, part.source) for part in line.parts] == [
        (0, "\u4e00\u3002"),
        (0, "\u4e8c x\u3002"),
        (1, "\u4e09"),
    ]


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
