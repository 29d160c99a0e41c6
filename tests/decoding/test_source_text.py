"""Lines of any content are read, counted and encoded, or named in an error."""

import sys
import unicodedata

import numpy as np
import pytest

from t2t_keras.decoding.jobs.line_job import resolve_outputs, run_line_job
from t2t_keras.decoding.source_text import read_sources, sentences
from t2t_keras.errors import UserError

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
                with pytest.raises(UserError, match=f"in:{len(good) + 1} "):
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


@pytest.mark.parametrize("space", [" ", "  ", "\u00a0", "\u2028", "\u3000"])
def test_sentences(space):
    expected = ["A man sleeps.", "Why?", "A dog!"]
    assert sentences(space.join(expected), "en") == expected
    # Neither does a capital before such a space end the process.
    assert sentences(f"Plan B{space}. Then README.Md", "en") == [
        f"Plan B{space}.",
        "Then README.Md",
    ]
