import os
import threading
from collections import Counter

import pytest

from t2t_keras.decoding.job_files import checked_outputs
from t2t_keras.decoding.line_job import Finished, run_line_job
from t2t_keras.decoding.line_progress import LineProgress
from t2t_keras.decoding.prefix_file import PrefixFile
from t2t_keras.errors import UserError


def test_a_resumed_job_s_speed_is_that_of_its_own_lines():
    assert Finished(Counter(), lines=1000, lines_before=900, seconds=10.0).lines_a_second == 10.0


@pytest.mark.parametrize(
    ("total", "of_total", "left"),
    [
        # 870 lines at 30 in 61 s, 850 at 50 in 122 s.
        (1000, " of 1,000", (", 29:29 left", ", 34:34 left")),
        (100_130, " of 100,130", (", 56:28:53 left", ", 67:45:51 left")),
        (None, "", ("", "")),
    ],
)
def test_progress_in_a_log_is_a_line_a_minute(capsys, total, of_total, left):
    times = iter([0.0, 30.0, 59.0, 61.0, 100.0, 122.0, 123.0])
    with LineProgress(total, 100, clock=times.__next__) as progress:
        for _ in range(5):
            progress.add(10)
        progress.set(200)
    assert capsys.readouterr().err.splitlines() == [
        f"130{of_total} lines are done, 0.5 a second{left[0]}.",
        f"150{of_total} lines are done, 0.4 a second{left[1]}.",
    ]


def test_progress_of_nothing_and_of_more_parts_than_lines(capsys):
    times = iter([0.0, 60.0, 120.0])
    with LineProgress(20, 10, clock=times.__next__) as progress:
        progress.add(0)
        progress.add(30)
    assert capsys.readouterr().err.splitlines() == [
        "10 of 20 lines are done, 0.0 a second.",
        "40 of 20 lines are done, 0.2 a second, 00:00 left.",
    ]


@pytest.fixture
def named_pipe(tmp_path):
    """named_pipe(text): the path of a pipe that the text is written to, once."""
    writers = []

    def named_pipe(text):
        path = tmp_path / f"pipe{len(writers)}"
        os.mkfifo(path)
        writers.append(threading.Thread(target=path.write_text, args=[text], daemon=True))
        writers[-1].start()
        return path

    yield named_pipe
    for writer in writers:
        writer.join(timeout=10)
        assert not writer.is_alive()


@pytest.fixture
def shout(tmp_path):
    """shout(source): what stands in the output of a job that is interrupted by "stop"."""

    def work(lines, number, progress):
        if "stop" in lines:
            raise KeyboardInterrupt
        return {"shouted": [line.upper() for line in lines]}, Counter(lines=len(lines))

    def shout(source):
        outputs = checked_outputs([source], {"shouted": tmp_path / "out.txt"})
        done = run_line_job(source, outputs, {}, work, 2)
        assert done.lines == done.counts["lines"]
        return outputs["shouted"].read_text()

    return shout


def test_a_pipe_is_read_by_its_name(named_pipe, shout):
    reading, writing = os.pipe()
    os.write(writing, b"a\nb\n")
    os.close(writing)
    assert shout(f"/dev/fd/{reading}") == "A\nB\n"
    os.close(reading)
    assert shout(named_pipe("a\nb\nc\n")) == "A\nB\nC\n"


def test_a_pipe_is_read_again_to_go_on(named_pipe, shout, capsys):
    with pytest.raises(KeyboardInterrupt):
        shout(named_pipe("a\nb\nstop\n"))
    assert shout(named_pipe("a\nb\nc\n")) == "A\nB\nC\n"
    assert "2 lines were done before" in capsys.readouterr().err
    with pytest.raises(KeyboardInterrupt):
        shout(named_pipe("a\nb\nstop\n"))
    with pytest.raises(UserError, match="source has changed"):
        shout(named_pipe("b\nc\n"))


def test_prefixes_are_a_file_and_need_not_be_of_one(named_pipe, tmp_path):
    begins = tmp_path / "begins"
    begins.write_text("1\n2\n")
    pipe = named_pipe("")
    assert PrefixFile(begins, pipe).of_lines(0, 2) == ["1", "2"]
    assert pipe.read_text() == "", "the source is left to others"
    for stream in (pipe, "-"):
        with pytest.raises(UserError, match=f"{stream} is no file, .* Write them to a file"):
            PrefixFile(stream, begins)
