"""What workers agree on goes with the sums of their steps, and is done once, by all, together."""

import signal

import pytest
import tensorflow as tf

from t2t_keras.errors import UserError
from t2t_keras.training.cluster import Cluster
from t2t_keras.training.workers import Agreed, OneWorker, SeveralWorkers


class Step:
    """Takes what a worker asks for, as the next step's sums will have it."""

    asked = (False, False)

    def request(self, stop, save):
        self.asked = (stop, save)


@pytest.fixture
def lockstep():
    """Returns a function that does steps as the trainer does; wishes are by (worker, step)."""

    def run(wishes, steps=12):
        cluster = [Cluster(("a:1", "b:1"), index) for index in range(2)]
        workers = [SeveralWorkers(each, gpus=0) for each in cluster]
        made, acted = [Step(), Step()], [{}, {}]
        pending, wanted = None, [dict(stop=0, save=False) for _ in workers]

        def hear(number, asked):
            sums = {"stop_requests": 0.0, "save_requests": 0.0}
            for stop, save in asked:
                sums["stop_requests"] += stop
                sums["save_requests"] += save
            for worker in workers:
                worker.hear(number, mine := dict(sums))
                assert mine == {}, "nothing of it is left for the curves"

        for number in range(steps):
            asked = [step.asked for step in made]
            if pending is not None:
                hear(*pending)
            pending = number, asked
            for index, worker in enumerate(workers):
                wanted[index] |= wishes.get((index, number), {})
                agreed = worker.agree(made[index], number, **wanted[index])
                if agreed != Agreed():
                    acted[index][number] = agreed
                    # As after a save: none is due any more.
                    wanted[index]["save"] = False
            if any(number in each for each in acted):
                hear(*pending)
                pending = None
        return acted

    return run


def test_a_save_of_the_chief_s_is_done_once_by_all_after_the_same_step(lockstep):
    chief, other = lockstep({(0, 3): dict(save=True), (0, 8): dict(save=True)})
    assert chief == other
    assert [each.save for each in chief.values()] == [True, True]
    assert all(3 <= number <= 5 or 8 <= number <= 10 for number in chief)


def test_the_clocks_of_others_do_not_count(lockstep):
    assert lockstep({(1, 3): dict(save=True)}) == [{}, {}]


def test_a_signal_to_one_stops_all(lockstep):
    chief, other = lockstep({(1, 4): dict(stop=int(signal.SIGINT))}, steps=7)
    assert list(chief) == list(other) == [6]
    assert other[6].stop == signal.SIGINT
    assert chief[6].stop == signal.SIGTERM, "who got none ends as if by the usual one"


class Watch:
    """Knows of no other worker's end; takes down what it is asked and told."""

    def __init__(self):
        self.waited, self.told = [], []

    def wait_for_end(self, seconds):
        self.waited.append(seconds)

    def fail(self, text, exit_status):
        self.told.append((text, exit_status))


@pytest.mark.parametrize(
    ("error", "waited", "status"),
    [
        (tf.errors.UnavailableError(None, None, "Socket closed"), [90], 75),
        (tf.errors.InternalError(None, None, "collective operation"), [90], 75),
        (tf.errors.ResourceExhaustedError(None, None, "OOM"), [5], 75),
        (tf.errors.UnknownError(None, None, "Could not start gRPC server"), [5], 75),
        (OSError("disk full"), [], 75),
        (UserError("no such file"), [], 2),
    ],
)
def test_only_an_error_that_a_lost_worker_may_have_caused_waits_for_its_name(error, waited, status):
    worker = SeveralWorkers(Cluster(("a:1", "b:1"), 1), gpus=0, silence_seconds=60)
    worker._watch = watch = Watch()
    with pytest.raises(type(error)), worker:
        raise error
    assert watch.waited == waited
    ((text, told),) = watch.told
    assert str(error) in text
    assert told == status


def test_one_worker_does_what_it_wants_at_once():
    assert OneWorker().agree(Step(), 3, stop=15, save=True) == Agreed(15, True)
