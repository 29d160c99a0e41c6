"""Lines of several requests in one batch: which ones, in which order, and what errors do."""

import asyncio
import threading
import time

import pytest

from t2t_keras.errors import UserError
from t2t_keras.server.work.batching import Batcher, QueueFullError


class Recorder:
    """Repeats lines; while `gate` is closed, nothing ends."""

    def __init__(self):
        self.batches, self.gate, self.begun = [], threading.Event(), threading.Event()
        self.gate.set()

    def __call__(self, lines, options, batch):
        self.begun.set()
        assert self.gate.wait(10)
        self.batches.append((list(lines), options))
        if "wrong" in lines:
            raise ValueError("wrong")
        return [line.upper() for line in lines]


@pytest.fixture
def recorder():
    return Recorder()


@pytest.fixture
def batcher(recorder):
    found = Batcher(recorder, max_wait_ms=0, max_lines=4, max_queued=10)
    yield found
    recorder.gate.set()
    found.close()


def busy(batcher, recorder):
    """Has the batcher begin with one line, and go on when `gate` is set."""
    recorder.gate.clear()
    recorder.begun.clear()
    first = batcher.submit(["first"])
    assert recorder.begun.wait(10)
    return first


def test_what_gathers_meanwhile_is_one_batch_by_options_and_size(batcher, recorder):
    busy(batcher, recorder)
    jobs = [
        batcher.submit(lines, options)
        for lines, options in (
            (["a", "b"], "x"),
            (["c"], "y"),
            (["d", "e", "f"], "x"),
            (["g"], "x"),
            (["h"], "y"),
        )
    ]
    recorder.gate.set()
    assert [job.result(10) for job in jobs] == [["A", "B"], ["C"], ["D", "E", "F"], ["G"], ["H"]]
    # "g" would fit beside "a" and "b", but does not overtake "d".
    assert recorder.batches[1:] == [
        (["a", "b"], "x"),
        (["c", "h"], "y"),
        (["d", "e", "f", "g"], "x"),
    ]


def test_an_idle_one_waits_for_more_lines(recorder):
    batcher = Batcher(recorder, max_wait_ms=10_000, max_lines=2, max_queued=10)
    jobs = [batcher.submit([line]) for line in "ab"]
    assert [job.result(5) for job in jobs] == [["A"], ["B"]]
    assert recorder.batches == [(["a", "b"], None)]
    last = batcher.submit(["c"])
    batcher.close()  # Whoever waits is answered at once.
    assert last.result(0) == ["C"]


def test_one_request_does_not_fail_the_others(batcher, recorder):
    busy(batcher, recorder)
    jobs = [batcher.submit([line]) for line in ("a", "wrong", "b")]
    recorder.gate.set()
    assert (jobs[0].result(10), jobs[2].result(10)) == (["A"], ["B"])
    with pytest.raises(ValueError, match="wrong"):
        jobs[1].result(10)


def test_a_full_queue_refuses_but_an_empty_one_takes_any_request(batcher, recorder):
    assert len(batcher.submit(["line"] * 50).result(10)) == 50
    busy(batcher, recorder)
    batcher.submit(["line"] * 9)
    with pytest.raises(QueueFullError):
        batcher.submit(["a", "b"])
    assert batcher.queued_lines == 9
    patient = batcher.submit(["c", "d"], may_wait=True)
    recorder.gate.set()
    assert patient.result(10) == ["C", "D"]


def test_what_is_cancelled_while_it_waits_is_not_translated(batcher, recorder):
    busy(batcher, recorder)

    async def give_up():
        task = asyncio.ensure_future(batcher.translate(["unwanted"]))
        await asyncio.sleep(0.01)
        task.cancel()

    asyncio.run(give_up())
    recorder.gate.set()
    assert batcher.submit(["last"]).result(10) == ["LAST"]
    assert not any("unwanted" in lines for lines, _ in recorder.batches)


def test_no_lines_are_no_batch(batcher, recorder):
    assert asyncio.run(batcher.translate([])) == []
    assert recorder.batches == []


def test_threads_translate_at_the_same_time_and_end_together(recorder):
    batcher = Batcher(recorder, max_wait_ms=0, max_lines=1, max_queued=10, at_once=2)
    recorder.gate.clear()
    jobs = [batcher.submit([name]) for name in "abcde"]
    deadline = time.monotonic() + 10
    while batcher.queued_lines > 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert batcher.queued_lines == 3, "two are with the threads"
    recorder.gate.set()
    batcher.close()
    assert [job.result(0) for job in jobs] == [["A"], ["B"], ["C"], ["D"], ["E"]]
    with pytest.raises(UserError):
        batcher.submit(["later"])
