"""Trying again: what fails for the moment is asked for anew, less and less often."""

import dataclasses
import random
import time
from collections.abc import Callable
from typing import TypeVar

from t2t_keras.errors import UserError

Result = TypeVar("Result")


class TransientError(Exception):
    """The server cannot answer now, and may soon; the text says why, for people."""


class DeadlineError(Exception):
    """The server did not answer in the time that an attempt was given."""


@dataclasses.dataclass(frozen=True)
class Retries:
    """How often to try, and how long to wait between.

    The wait before attempt n + 1 is drawn from 0 to first_wait · 2^(n - 1), at most longest_wait:
    exponential back-off with full jitter, so that many clients that failed together do not come
    back together.

    Attributes:
      attempts: the most attempts, the first included.
      first_wait: longest wait before the second attempt, in seconds.
      longest_wait: of any wait, in seconds.
      timeout: seconds for all attempts and waits together.
    """

    attempts: int = 5
    first_wait: float = 0.2
    longest_wait: float = 5.0
    timeout: float = 10.0

    def call(
        self,
        attempt: Callable[[float], Result],
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        draw: Callable[[float, float], float] = random.uniform,
    ) -> Result:
        """Returns what `attempt` returns.

        Args:
          attempt: takes the seconds that it may use; raises `TransientError` to be tried again, or
            `DeadlineError`.
          clock: seconds since some moment.
          sleep: waits so many seconds.
          draw: a number between two, uniformly.

        Raises:
          UserError: there was no answer in all attempts, or within `timeout`.
        """
        end = clock() + self.timeout
        for number in range(1, self.attempts + 1):
            try:
                return attempt(max(end - clock(), 1e-3))
            except DeadlineError:
                raise UserError(
                    f"There was no answer within {self.timeout:g} s (attempt {number}). Give more "
                    f"time (--timeout_secs), or ask for less at once (--batch_size)."
                ) from None
            except TransientError as error:
                reason = str(error)
            wait = draw(0.0, min(self.first_wait * 2 ** (number - 1), self.longest_wait))
            if number < self.attempts:
                if clock() + wait >= end:
                    raise UserError(
                        f"{reason} It was tried {number} times in {self.timeout:g} s "
                        f"(--timeout_secs)."
                    )
                sleep(wait)
        raise UserError(f"{reason} It was tried {self.attempts} times (--max_attempts).")
