"""Lines of several requests in one batch, turns of an engine, shares of clients, places."""

import asyncio
import contextlib
import functools
import threading
import time

import pytest
from refusals import refused
from upper_case import Clock, Source, UpperCase, UpperCaseEngine

from t2t_keras.workbench.server.batching import (
    Batcher,
    EngineInTurns,
    QueueFullError,
    Shares,
    Turns,
)
from t2t_keras.workbench.server.config import ServerConfig
from t2t_keras.workbench.server.requests import Budget, JobEndedError, Places, in_own_thread
from t2t_keras.workbench.server.service import Metrics, Options, TranslationService


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
    actual = Batcher(recorder, max_wait_ms=0, max_lines=4, max_queued=10)
    yield actual
    recorder.gate.set()
    actual.close()


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
    jobs = [batcher.submit(["a"]), batcher.submit(["other"], "options")]
    time.sleep(0.02)
    jobs[1:1] = [batcher.submit(["b"])]
    assert [job.result(5) for job in jobs[:2]] == [["A"], ["B"]]
    assert recorder.batches[0] == (["a", "b"], None)
    last = batcher.submit(["c"])
    batcher.close()  # Whoever waits is answered at once.
    assert last.result(0) == ["C"]


def test_one_request_does_not_fail_the_others_which_run_alone_in_their_order(batcher, recorder):
    busy(batcher, recorder)
    jobs = [batcher.submit([line]) for line in ("wrong", "a", "b", "wrong", "c", "d")]
    recorder.gate.set()
    for number in (3, 0):
        with pytest.raises(ValueError, match="wrong"):
            jobs.pop(number).result(10)
    assert [job.result(10) for job in jobs] == [["A"], ["B"], ["C"], ["D"]]
    batches = [lines for lines, _ in recorder.batches[1:]]
    assert batches == [["wrong", "a", "b", "wrong"], ["wrong"], ["a"], ["b"], ["wrong"], ["c", "d"]]


def test_a_costly_job_whose_batch_failed_does_not_keep_others_from_an_answer():
    """Its searches count once it runs alone, so it soon leaves its place to others."""
    alone, has_late, release, sizes = *(threading.Event() for _ in range(3)), []

    def translate(lines, options, batch):
        if "costly" in lines:
            if len(lines) > 1:
                raise ValueError
            alone.set()
            assert has_late.wait(10)
            for _ in range(5):
                with batch.turn(1):
                    pass
            assert release.wait(10)
        return lines

    observe = lambda lines, seconds: sizes.append(lines)  # noqa: E731
    batcher = Batcher(translate, max_wait_ms=10_000, max_lines=2, max_queued=10, observe=observe)
    costly, small = (batcher.submit([name], budget=Budget(name)) for name in ("costly", "small"))
    assert alone.wait(10)
    late = batcher.submit(["c", "d"], budget=Budget("late"))
    time.sleep(0.02)  # It finds no place yet.
    has_late.set()
    assert (late.result(10), small.result(10)) == (["c", "d"], ["small"])
    assert not costly.done()
    release.set()
    assert costly.result(10) == ["costly"]
    batcher.close()
    assert sorted(sizes) == [1, 1, 2], "each line is counted once"


def test_lines_that_nobody_waits_for_leave_the_queue(batcher, recorder):
    busy(batcher, recorder)
    cancelled, budget = batcher.submit(["a"] * 9), Budget()
    assert cancelled.cancel()
    assert batcher.queued_lines == 0
    ended = batcher.submit(["b"] * 9, budget=budget)
    budget.end("client_gone", "")
    jobs = [batcher.submit(["c"] * 5) for _ in range(2)]
    assert batcher.queued_lines == 10
    with pytest.raises(QueueFullError):
        batcher.submit(["d"])
    recorder.gate.set()
    assert [job.result(10) for job in jobs] == [["C"] * 5] * 2
    assert ended.exception(10).code == "client_gone"
    assert sum(len(lines) for lines, _ in recorder.batches) == 11


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
    first = busy(batcher, recorder)

    async def give_up():
        task = asyncio.ensure_future(batcher.translate(["unwanted"]))
        await asyncio.sleep(0.01)
        task.cancel()

    asyncio.run(give_up())
    recorder.gate.set()
    assert first.result(10) == ["FIRST"]
    time.sleep(0.01)  # Nothing waits, and the next one finds its way.
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
    with refused("model_removed"):
        batcher.submit(["later"])


def test_requests_of_the_client_that_had_least_come_first(batcher, recorder):
    """Jobs of a batch are one client's each; b has had nothing, a some, so b comes first."""
    busy(batcher, recorder)
    jobs = [
        batcher.submit([f"{client}{number}"], f"{client}{number}", budget=Budget(client))
        for client in "ab"
        for number in range(3)
    ]
    recorder.gate.set()
    for job in jobs:
        job.result(10)
    order = [lines[0] for lines, _ in recorder.batches[1:]]
    assert order[:2] in (["a0", "b0"], ["b0", "a0"])
    assert [name for name in order if name[0] == "b"] == ["b0", "b1", "b2"]
    assert order.index("b0") < order.index("a1")


class Slow(UpperCaseEngine):
    """Takes a while, and 4 sentences at most."""

    batches_at_once = 2

    def outputs(self, sources, prefixes, numbers):
        outputs = super().outputs(sources, prefixes, numbers)
        time.sleep(0.002)
        return outputs


def test_two_costly_clients_do_not_keep_a_third_from_an_answer():
    """Counted in searches that begin between its request and its own search."""
    engine = Slow()
    translator = UpperCase(engine=engine)
    config = ServerConfig(reload_seconds=0.0, max_wait_ms=0.0, max_queue_lines=100_000)
    service = TranslationService([Source(translator=translator)], config, Metrics())
    pair, waits = ("en", "de"), []

    async def cheap(number):
        before = len(engine.searches)
        line = f"cheap {number}"
        [translation] = await service.run(pair, [line], Options(), Budget("cheap"))
        assert translation.text == line.upper()
        own = next(i for i in range(before, len(engine.searches)) if line in engine.searches[i])
        waits.append(engine.searches[before:own])

    async def ask():
        budgets = [Budget("costly 1"), Budget("costly 2")]
        costly = [
            asyncio.create_task(
                service.run(pair, [f"{i} {n}" for n in range(50_000)], Options(), budget)
            )
            for i, budget in enumerate(budgets)
        ]
        while len(engine.searches) < 4:
            await asyncio.sleep(0.001)
        for number in range(40):
            await cheap(number)
        assert not any(job.done() for job in costly)
        for job in costly:
            job.cancel()
        await asyncio.gather(*costly, return_exceptions=True)
        await service.close()

    asyncio.run(ask())
    # Three searches with its own, of few sentences; more where it is read slowly on a busy machine.
    counts = sorted(map(len, waits))
    assert counts[len(counts) // 2] <= 2
    assert counts[-2] <= 8
    assert max((len(search) for wait in waits for search in wait), default=0) <= 4


class Searching:
    """Searches once for each line, so often."""

    def __init__(self, times):
        self.times, self.searches = times, 0

    def __call__(self, lines, options, batch):
        for _ in range(self.times):
            with batch.turn(len(lines)):
                self.searches += len(lines)
        return lines


@pytest.mark.parametrize(("characters", "most"), [(0, 256), (10, 276), (200, 656)])
@pytest.mark.parametrize("over", [0, 1])
@pytest.mark.parametrize("jobs", [1, 2])
def test_the_searches_of_a_job_are_bounded(characters, most, over, jobs):
    """In a batch each job is charged for its part of them."""
    translate = Searching(most + over)
    batcher = Batcher(translate, max_wait_ms=10_000, max_lines=jobs, max_queued=10)
    budgets = [Budget(characters=characters) for _ in range(jobs)]
    for job in [batcher.submit(["a"], budget=budget) for budget in budgets]:
        error = job.exception(10)
        assert error.code == "job_too_long" if over else error is None
    assert translate.searches == most * jobs
    batcher.close()


@pytest.mark.parametrize(
    ("jobs", "searches", "rows"),
    [
        ([("a", ["a"] * 8)], 0, 1 << 30),
        ([("a", ["a"] * 9)], 0, 64),
        ([("a", ["a" * 1_999])], 0, 1 << 30),
        ([("a", ["a" * 2_000])], 0, 64),
        ([("a", ["a"] * 8), ("b", ["b"] * 8)], 0, 1 << 30),
        ([("a", ["a"])], 4, 1 << 30),
        ([("a", ["a"])], 5, 64),
        ([("a", ["a"]), ("b", ["b"])], 5, 1 << 30),
        ([("a", ["a"]), ("b", ["bc"])], 5, 2),
    ],
)
def test_a_long_batch_searches_for_few_sentences_at_a_time(jobs, searches, rows):
    """What is large, or mostly one client's with many searches; fewer while others have work."""
    asked = []

    def translate(lines, options, batch):
        for _ in range(searches):
            with batch.turn(1):
                pass
        asked.append(batch.rows_at_once)
        return lines

    most = sum(len(lines) for _, lines in jobs)
    batcher = Batcher(translate, max_wait_ms=10_000, max_lines=most, max_queued=100)
    for job in [batcher.submit(lines, budget=Budget(client)) for client, lines in jobs]:
        job.result(10)
    batcher.close()
    assert asked == [rows]


@pytest.mark.parametrize("ended", [1, 2])
def test_a_batch_ends_with_the_last_of_its_jobs(ended):
    """Each job has its own reason, the first that there was."""
    budgets, codes = [Budget(), Budget()], ["client_gone", "server_stops"]

    def translate(lines, options, batch):
        for budget, code in zip(budgets[:ended], codes, strict=False):
            budget.end(code, "")
            budget.end("job_too_long", "")
        with batch.turn(1):
            return lines

    batcher = Batcher(translate, max_wait_ms=10_000, max_lines=2, max_queued=10)
    jobs = [batcher.submit(["a"], budget=budget) for budget in budgets]
    batcher.close()
    actual = [error and error.code for error in (job.exception(0) for job in jobs)]
    assert actual == (codes if ended == 2 else [None, None])


@pytest.mark.parametrize(("searches", "most"), [(0, 2), (1, 1), (3, 3)])
def test_so_many_searches_run_at_a_time(searches, most):
    def translate(lines, options, batch):
        started = [threading.Event() for _ in range(4)]
        for event in started:
            threading.Thread(target=search, args=(batch, event)).start()
        while sum(event.is_set() for event in started) < most:
            time.sleep(0.001)
        time.sleep(0.01)
        actual = sum(event.is_set() for event in started)
        end.set()
        return [actual]

    def search(batch, started):
        with batch.turn(1):
            started.set()
            end.wait(10)

    end = threading.Event()
    batcher = Batcher(translate, 0, max_lines=1, max_queued=1, at_once=2, searches=searches)
    assert batcher.submit(["a"]).result(10) == [most]
    batcher.close()


def test_only_waiting_for_a_turn_costs_nothing():
    clock = Clock()
    budget, batches = Budget(clock=clock), []

    def translate(lines, options, batch):
        batches.append(batch)
        with batch.turn(1):
            other = threading.Thread(target=lambda: batch.turn(1).__enter__())
            other.start()
            time.sleep(0.05)  # The other waits for its turn while this one searches.
            clock.now += 10
        other.join(10)
        return lines

    batcher = Batcher(translate, max_wait_ms=0, max_lines=1, max_queued=10)
    batcher.submit(["a"], budget=budget).result(10)
    batcher.close()
    assert budget.seconds == 10


def test_the_seconds_of_a_job_are_those_of_its_share_of_work():
    clock = Clock()
    budget = Budget(seconds=10.0, clock=clock)
    clock.now = 100.0  # Waiting costs nothing.
    budget.begin(0.5)
    clock.now = 120.0
    assert (budget.seconds, budget.end_error) == (10.0, None)
    clock.now = 120.1
    with pytest.raises(JobEndedError) as ended:
        budget.check()
    assert ended.value.code == "job_too_long"
    budget.pause()
    clock.now = 200.0
    assert budget.seconds == pytest.approx(10.05)
    with contextlib.suppress(KeyError), budget.working():
        clock.now = 201.0
        with budget.waiting():
            clock.now = 300.0
        clock.now = 302.0
        raise KeyError
    clock.now = 400.0
    assert budget.seconds == pytest.approx(13.05), "nor does what failed cost more"


def test_what_is_begun_ends_with_its_client_at_the_next_search():
    begun, searched = threading.Event(), []

    def translate(lines, options, batch):
        for number in range(1_000_000):
            with batch.turn(len(lines)):
                searched.append(number)
            begun.set()
        return lines

    batcher = Batcher(translate, max_wait_ms=0, max_lines=4, max_queued=10)
    # Searches are not what ends it.
    budget = Budget(characters=1 << 40)

    async def give_up():
        task = asyncio.ensure_future(batcher.translate(["a"], budget=budget))
        await asyncio.to_thread(begun.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(give_up())
    batcher.close()
    assert len(searched) < 1_000_000
    assert budget.end_error.code == "client_gone"


def test_the_end_does_not_wait_longer_than_it_may(recorder):
    batcher = Batcher(recorder, max_wait_ms=0, max_lines=1, max_queued=10)
    begun = busy(batcher, recorder)
    waiting = batcher.submit(["waiting"])
    batcher.end_all("server_stops", "")
    batcher.close(seconds=0.05)
    assert not begun.done()
    recorder.gate.set()
    batcher.close()
    assert waiting.exception(0).code == "server_stops"
    assert begun.result(0) == ["FIRST"], "what is finished all the same is not thrown away"


def test_no_client_waits_in_a_batch_for_much_of_another(recorder):
    batcher = Batcher(recorder, max_wait_ms=0, max_lines=100, max_queued=1000)
    busy(batcher, recorder)
    jobs = [
        batcher.submit([client] * lines, budget=Budget(client))
        for client, lines in (("c", 8), ("a", 9), ("b", 9), ("d", 8), ("a", 9))
    ]
    recorder.gate.set()
    for job in jobs:
        job.result(10)
    batcher.close()
    clients = [set(lines) for lines, _ in recorder.batches[1:]]
    assert sorted(map(sorted, clients)) == [["a"], ["b"], ["c", "d"]]


def test_no_client_waits_in_a_batch_for_many_small_jobs_of_another(recorder):
    batcher = Batcher(recorder, max_wait_ms=0, max_lines=100, max_queued=1000)
    busy(batcher, recorder)
    clients = ("b", "a", "a", "a", "a", "c")
    jobs = [batcher.submit([client] * 4, budget=Budget(client)) for client in clients]
    recorder.gate.set()
    for job in jobs:
        job.result(10)
    batcher.close()
    batches = [lines for lines, _ in recorder.batches[1:]]
    assert sorted(map(len, batches)) == [8, 16]
    for lines in batches:
        assert len(set(lines)) == 1 or max(map(lines.count, lines)) <= 8


class FewRows:
    """A batch that searches for so many sentences at a time, and counts its turns.

    From the second turn on, it may be for another number of sentences.
    """

    def __init__(self, rows_at_once, later=None):
        self.rows_at_once, self.turns, self.is_in_turn = rows_at_once, [], False
        self.later = later or rows_at_once

    @contextlib.contextmanager
    def turn(self, sentences=0):
        self.turns.append(sentences)
        self.rows_at_once = self.later
        self.is_in_turn = True
        yield
        self.is_in_turn = False


class Numbering:
    """An engine whose every output is of its own turn."""

    name, models, batches_at_once = "numbering", ("model",), 2

    def __init__(self, batch, has_all=False):
        self.batch, self.has_all, self.sizes = batch, has_all, []

    def with_all_hypotheses(self):
        return self if self.has_all else Numbering(self.batch, has_all=True)

    def outputs(self, sources, prefixes, numbers):
        assert self.batch.is_in_turn
        return list(zip(sources, prefixes, numbers, strict=True))

    def log_probs(self, sources, targets, name="log_probs"):
        self.sizes.append(len(sources))
        for number, pair in reversed([*enumerate(zip(sources, targets, strict=True))]):
            assert self.batch.is_in_turn
            yield number, (name, *pair)

    cross_attention = functools.partialmethod(log_probs, name="cross_attention")
    attention = functools.partialmethod(log_probs, name="attention")

    def next_symbols(self, source, prefix, count):
        assert self.batch.is_in_turn
        return [source, prefix, count]


def test_each_search_of_an_engine_takes_a_turn():
    batch = FewRows(2, later=3)
    engine = EngineInTurns(Numbering(batch), batch)
    assert (engine.name, engine.models, engine.batches_at_once) == ("numbering", ("model",), 2)
    expected = [*zip("abcde", "fghij", range(5), strict=True)]
    assert engine.outputs("abcde", "fghij", range(5)) == expected
    assert batch.turns == [2, 3], "as many as the batch allows by then"
    whole = engine.with_all_hypotheses()
    assert whole.has_all
    assert whole.outputs("a", "b", [0]) == [("a", "b", 0)]
    assert whole.with_all_hypotheses() is whole
    assert engine.next_symbols("a", "b", 3) == ["a", "b", 3]
    assert batch.turns[2:] == [1, 1]


@pytest.mark.parametrize("name", ["log_probs", "cross_attention", "attention"])
@pytest.mark.parametrize(
    ("rows", "later", "pairs", "sizes", "turns"),
    [(2, 1, 40, [16, 8, 8, 8], [2, 1, 1, 1]), (1 << 30, 0, 260, [256, 4], [32, 0])],
)
def test_scoring_eight_pairs_costs_a_search(name, rows, later, pairs, sizes, turns):
    batch = FewRows(rows, later)
    inner = Numbering(batch)
    actual = dict(getattr(EngineInTurns(inner, batch), name)(range(pairs), range(pairs)))
    assert actual == {number: (name, number, number) for number in range(pairs)}
    assert (inner.sizes, batch.turns) == (sizes, turns)


def test_a_client_that_comes_again_has_neither_credit_nor_less_debt():
    shares = Shares()
    for client in "abc":
        shares.arrive(client)
    assert shares.has_several_clients
    shares.charge({"a": 0.25, "b": 0.75}, 8.0)
    assert [shares.rank(names) for names in ("a", "b", "c", "ab")] == [2.0, 6.0, 0.0, 2.0]
    shares.leave("c")
    shares.arrive("c")
    assert shares.rank("c") == 2.0, "what is the least of the others, not idle time"
    shares.leave("b")
    shares.arrive("b")
    assert shares.rank("b") == 6.0
    shares.arrive("a")
    for client in "bca":
        shares.leave(client)
    assert not shares.has_several_clients
    shares.leave("a")
    shares.arrive("d")
    assert [shares.rank(name) for name in "abd"] == [0.0, 0.0, 0.0], "an idle server forgets"


def test_whoever_waits_for_a_place_of_its_client_takes_none_of_the_others():
    async def use():
        places, taken, leave = Places(2, 1), [], asyncio.Event()

        async def take(client):
            async with places.place(client):
                taken.append(client)
                await leave.wait()

        tasks = [asyncio.create_task(take(client)) for client in "aabc"]
        for _ in range(5):
            await asyncio.sleep(0)
        before = list(taken)
        leave.set()
        await asyncio.gather(*tasks)
        return before, taken

    before, taken = asyncio.run(use())
    assert (before, sorted(taken)) == (["a", "b"], ["a", "a", "b", "c"])


def test_what_a_thread_raises_is_raised():
    assert asyncio.run(in_own_thread(divmod, 7, 2)) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        asyncio.run(in_own_thread(divmod, 7, 0))


def test_a_free_turn_is_given_whatever_the_order_becomes():
    """The use of the machine changes while those that wait wake up, each at another moment."""

    class Changing(Shares):
        """To whoever asks, another is the first."""

        def rank(self, clients):
            return float(threading.current_thread().name in clients)

    class Counting(threading.Condition):
        """Counts those that wait."""

        def wait(self, timeout=None):
            waiting.add(threading.current_thread().name)
            if len(waiting) == 3:
                all_wait.set()
            return super().wait(timeout)

    served, waiting, all_wait = [], set(), threading.Event()
    turns = Turns(1, Changing(), Counting())

    def search(client):
        with turns.turn([client]):
            served.append(client)

    threads = [
        threading.Thread(target=search, args=(name,), name=name, daemon=True) for name in "abc"
    ]
    with turns.turn(["d"]):
        for thread in threads:
            thread.start()
        assert all_wait.wait(10)
    for thread in threads:
        thread.join(10)
    assert sorted(served) == ["a", "b", "c"]
