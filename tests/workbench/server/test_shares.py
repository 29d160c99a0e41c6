"""Turns of an engine, shares of clients, and places for slow work."""

import asyncio
import contextlib
import functools
import threading

import pytest

from t2t_keras.workbench.server.batching import EngineInTurns, Shares, Turns
from t2t_keras.workbench.server.requests import Places, in_own_thread


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
    found = dict(getattr(EngineInTurns(inner, batch), name)(range(pairs), range(pairs)))
    assert found == {number: (name, number, number) for number in range(pairs)}
    assert (inner.sizes, batch.turns) == (sizes, turns)


def test_a_client_that_comes_again_has_neither_credit_nor_less_debt():
    shares = Shares()
    for client in "abc":
        shares.arrive(client)
    assert shares.are_several
    shares.add({"a": 0.25, "b": 0.75}, 8.0)
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
    assert not shares.are_several
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
