import os
import signal

import pytest

from t2t_keras.io.terminal import caught_signals


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_waits_and_the_second_acts(number):
    def act(*_):
        raise InterruptedError

    def main():
        with caught_signals() as caught:
            for _ in range(3):
                seen.append(caught[-1])
                os.kill(os.getpid(), number)

    seen, before = [], signal.signal(number, act)
    try:
        with pytest.raises(InterruptedError):
            main()
        assert (seen, signal.getsignal(number)) == ([0, number], act)
    finally:
        signal.signal(number, before)
