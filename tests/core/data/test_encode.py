import subprocess
import sys

import pytest

from t2t_keras.data.encode import workers


@pytest.mark.parametrize("count", [1, 2])
def test_results_are_in_the_order_of_the_calls(count):
    with workers(count) as call:
        assert list(call(pow, ((number, 2) for number in range(20)))) == [n * n for n in range(20)]


def test_workers_that_cannot_start_are_an_error(tmp_path):
    # Without `if __name__ == "__main__"` each worker fails when it reads the program. What they
    # should have received is more than a pipe holds.
    program = """
from t2t_keras.data.encode import workers
with workers(2) as call:
    print(list(call(len, [(bytes(1 << 20),)])))
"""
    (tmp_path / "program.py").write_text(program)
    done = subprocess.run(
        [sys.executable, tmp_path / "program.py"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode != 0
    assert "fewer --num_workers" in done.stderr
