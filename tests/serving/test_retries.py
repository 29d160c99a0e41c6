import pytest

from t2t_keras.errors import UserError
from t2t_keras.serving.retries import DeadlineError, Retries, TransientError


class Clock:
    """Time that passes when somebody sleeps."""

    def __init__(self):
        self.now = 0.0
        self.waits = []

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.waits.append(seconds)
        self.now += seconds


def call(retries, outcomes, clock, seconds_each=0.0):
    """Runs attempts with these outcomes, exceptions among them; always the longest wait."""
    given = []

    def attempt(timeout):
        given.append(timeout)
        clock.now += seconds_each
        outcome = outcomes[len(given) - 1]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    draw = lambda low, high: high  # noqa: E731
    try:
        return retries.call(attempt, clock=clock, sleep=clock.sleep, draw=draw), given
    except UserError as error:
        return str(error), given


def test_waits_double_up_to_a_longest():
    clock = Clock()
    busy = [TransientError("busy")] * 5
    retries = Retries(attempts=6, first_wait=0.5, longest_wait=3.0, timeout=60)
    assert call(retries, [*busy, "answer"], clock)[0] == "answer"
    assert clock.waits == [0.5, 1.0, 2.0, 3.0, 3.0]


def test_waits_are_drawn_from_zero_to_the_longest():
    drawn = []

    def draw(low, high):
        drawn.append((low, high))
        return 0.0

    def attempt(timeout):
        raise TransientError("busy")

    with pytest.raises(UserError):
        Retries(attempts=3, first_wait=1.0).call(attempt, sleep=lambda wait: None, draw=draw)
    assert drawn[:2] == [(0.0, 1.0), (0.0, 2.0)]


def test_ends_after_the_last_attempt():
    clock = Clock()
    message, given = call(Retries(attempts=3), [TransientError("It is busy.")] * 3, clock)
    assert message == "It is busy. It was tried 3 times (--max_attempts)."
    assert len(given) == 3
    assert len(clock.waits) == 2


def test_attempts_share_the_deadline():
    clock = Clock()
    retries = Retries(attempts=9, first_wait=1.0, timeout=10.0)
    message, given = call(retries, [TransientError("It is busy.")] * 9, clock, seconds_each=2.0)
    # At 0, 2 + 1, 5 + 2 seconds; after 9 the next wait of 4 would pass 10.
    assert given == [10.0, 7.0, 3.0]
    assert message == "It is busy. It was tried 3 times in 10 s (--timeout_secs)."


def test_a_deadline_is_not_tried_again():
    message, given = call(Retries(timeout=3), [DeadlineError("")], Clock())
    assert "no answer within 3 s (attempt 1)" in message
    assert len(given) == 1


def test_other_errors_pass_at_once():
    message, given = call(Retries(), [UserError("no such model"), "answer"], Clock())
    assert message == "no such model"
    assert len(given) == 1
