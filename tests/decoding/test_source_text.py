"""Lines of any content are read, counted and encoded, or named in an error."""

import sys
import unicodedata

import numpy as np
import pytest

from t2t_keras.decoding.jobs.line_job import resolve_outputs, run_line_job
from t2t_keras.decoding.source_text import read_sources, sentences
from t2t_keras.errors import UserError

LINES, MOST = 1000, 40


def one_of_each_category():
    found = {}
    for code in range(sys.maxunicode + 1):
        found.setdefault(unicodedata.category(chr(code)), chr(code))
    return list(found.values())


@pytest.fixture(scope="module")
def lines():
    """Random lines of bytes: of every Unicode category, controls, surrogates and long words."""
    random = np.random.default_rng(0)
    alphabet = [*one_of_each_category(), "\r", "\t", "\x00", "\ufeff", "\u2028", "\ud800", "a", " "]
    lines = []
    for number in range(LINES):
        if number % 10 == 0:
            line = random.bytes(random.integers(0, 60))
        else:
            length = 2000 if number % 100 == 1 else random.integers(0, 30)
            text = "".join(random.choice(alphabet, length))
            line = text.encode("utf-8", "surrogatepass")
        lines.append(line.replace(b"\n", b"."))
    return lines


def test_every_line_is_counted_or_named(lines, tokenizer, tmp_path):
    def work(texts, number, progress):
        kept.extend(texts)
        return {"numbers": map(str, range(number, number + len(texts)))}, {}

    def run(content):
        (tmp_path / "in").write_bytes(b"".join(line + b"\n" for line in content))
        kept.clear()
        outputs = resolve_outputs([tmp_path / "in"], {"numbers": tmp_path / "out"})
        return run_line_job(tmp_path / "in", outputs, {}, work, 100).lines

    kept, good = [], []
    for line in lines:
        try:
            line.decode("utf-8")
            good.append(line)
        except UnicodeDecodeError:
            if len(good) % 50 == 1:
                with pytest.raises(UserError, match=f"in:{len(good) + 1} "):
                    run([*good, line])
                (tmp_path / "out.partial").unlink(missing_ok=True)
    assert LINES // 4 < len(good) < LINES
    assert run(good) == len(good) == len(kept)
    assert len((tmp_path / "out").read_text().split("\n")) == len(good) + 1
    for split_long in (False, True):
        sources = read_sources(kept, tokenizer, MOST, split_long)
        for text, source in zip(kept, sources, strict=True):
            assert bool(source.parts) == bool(text.strip())
            assert all(1 < len(part) <= MOST and part[-1] == 1 for part in source.parts)
            assert len(source.parts) == len(source.first_words)


def test_sentences():
    expected = ["A man sleeps.", "Why?", "A dog!"]
    for space in (" ", "  ", "\u00a0", "\u2028", "\u3000"):
        assert sentences(space.join(expected)) == expected
