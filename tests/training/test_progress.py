"""The progress line on a terminal, and the plain lines where there is none."""

import io

import pytest

from t2t_keras import progress_bar
from t2t_keras.training.progress import Progress


class Stream(io.StringIO):
    """Standard error, which may be a terminal."""

    def __init__(self, terminal):
        super().__init__()
        self._terminal = terminal

    def isatty(self):
        return self._terminal


class Curves:
    """Takes the curves."""

    def close(self):
        pass


@pytest.mark.parametrize(
    ("terminal", "installed", "plain"),
    [(True, True, False), (False, True, True), (True, False, True)],
)
def test_a_plain_line_every_100_steps_where_no_progress_line_is_shown(
    monkeypatch, capsys, terminal, installed, plain
):
    monkeypatch.setattr("sys.stderr", stderr := Stream(terminal))
    if not installed:
        monkeypatch.setattr(progress_bar, "_tqdm", lambda: None)
    progress = Progress(Curves(), 150, 1250)
    for _ in range(150, 310):
        progress.step(2.0, 0.0005, 1234.0)
    progress.close()
    text = "loss 2.000, learning rate 5.00e-04, 1,234 target tokens/s"
    lines = [f"Step {number} of 1,250: {text}" for number in (200, 300)] if plain else []
    assert capsys.readouterr().out.splitlines() == lines
    assert bool(stderr.getvalue()) != plain
