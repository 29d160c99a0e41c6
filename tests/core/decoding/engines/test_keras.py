"""Single sentences by XLA, which is compiled while they are translated without."""

import numpy as np
import pytest

from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.keras_engine import LONGEST, CompiledMeanwhile
from t2t_keras.decoding.translator import Translator

LINES = ["the small dog sleeps", "a man", "the woman sees the red tree"]


@pytest.fixture
def called(monkeypatch):
    """Whether the compiled search answered, call after call."""
    answers, call = [], CompiledMeanwhile.__call__

    def recorded(self, *arguments):
        found = call(self, *arguments)
        answers.append(found is not None)
        return found

    monkeypatch.setattr(CompiledMeanwhile, "__call__", recorded)
    return answers


def test_what_is_compiled_finds_the_same(model, tokenizer, called, monkeypatch):
    def make(**settings):
        settings |= dict(return_beams=True, extra_length=4)
        return Translator(model, tokenizer, DecodeConfig(**settings))

    expected = make().translate(LINES)
    translator = make(xla_for_one=True)
    # Its name in the cache of compiled code counts what was traced before.
    assert translator.engine.for_one.search.graph.experimental_get_tracing_count() == 1

    def check():
        found = [translator.translate([line])[0] for line in LINES]
        assert [each.text for each in found] == [each.text for each in expected]
        scores = [[each.score for each in line.hypotheses] for line in expected]
        for line, some in zip(found, scores, strict=True):
            assert [each.score for each in line.hypotheses] == pytest.approx(some, abs=1e-5)

    check()
    assert not called[0], "nobody waits for a compilation"
    translator.engine.for_one.wait()
    called.clear()
    check()
    assert called == [True] * len(LINES)
    translator.translate(LINES)
    for_one, ids = translator.engine.for_one, np.full([1, LONGEST + 1], 5, np.int32)
    arguments = np.zeros([1, 0], np.int32), np.zeros(1, np.int32)
    assert for_one(ids, *arguments) is None
    for_one.wait()
    assert for_one(ids, *arguments) is None, "it is not compiled"
    monkeypatch.setattr(for_one, "search", lambda *_: "found")
    assert for_one(ids[:, 1:], *arguments) is None
    for_one.wait()
    assert for_one(ids[:, 1:], *arguments) == "found"
