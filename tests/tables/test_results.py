"""A file of results that runs append to."""

import dataclasses
import subprocess
import sys

import pytest

from t2t_keras.errors import UserError
from t2t_keras.tables.results import Result, append_result, read_results

RESULT = Result(
    set="transformer_tiny",
    problem="translate_ende_toy",
    split="test",
    hparams={"dropout": 0.0},
    random_seed=1,
    steps=1000,
    target_tokens=4_000_000,
    seconds=61.5,
    hardware="2 cores of a CPU",
    commit="abc1234",
    decode={"beam_size": 4, "alpha": 0.6},
    bleu=97.25,
    bleu_signature="nrefs:1|case:mixed|tok:13a",
    chrf=98.0,
    date="2017-06-12T17:57:34Z",
)


def test_what_is_appended_is_read(tmp_path):
    path = tmp_path / "new" / "results.jsonl"
    other = dataclasses.replace(RESULT, set="von Hand: ü", seconds=61, bleu=None)
    append_result(path, RESULT)
    append_result(path, other)
    assert read_results(path) == [RESULT, other]
    assert len(path.read_text(encoding="utf-8").splitlines()) == 2
    assert read_results(tmp_path / "nowhere") == []


def test_a_line_from_before_results_named_their_checkpoint_is_read(tmp_path):
    path = tmp_path / "results.jsonl"
    path.write_text('{"set": "x", "problem": "y", "split": "dev", "steps": 3, "bleu": 1.5}\n')
    (result,) = read_results(path)
    assert (result.bleu, result.checkpoint) == (1.5, "")


def test_torn_and_wrong_lines_are_named_and_left_out(tmp_path, capsys):
    path = tmp_path / "results.jsonl"
    append_result(path, RESULT)
    whole = path.read_bytes()
    wrong = [
        whole[: len(whole) // 2] + b"\n",
        b"\n",
        b"[1]\n",
        b'{"set": "x", "problem": "y"}\n',
        b'{"set": "x", "problem": "y", "split": "z", "blue": 1}\n',
        b'{"set": "x", "problem": "y", "split": "z", "steps": "many"}\n',
        b"\xff\n",
        b'{"set": "x", "problem": "y", "split": "z", "bleu": NaN}\n',
        b'{"set": "x", "problem": "y", "split": "z", "bleu": 1e999}\n',
        b'{"set": "x", "problem": "y", "split": "z", "bleu": 1%s}\n' % (b"0" * 400),
        # A disk was full here, and the next writer begins a line of its own.
        whole[:30],
    ]
    path.write_bytes(whole + b"".join(wrong))
    append_result(path, RESULT)
    assert read_results(path) == [RESULT, RESULT]
    said = capsys.readouterr()
    assert said.out == ""
    lines = said.err.splitlines()
    assert [line.partition(" ")[0] for line in lines] == [
        f"{path}:{n}" for n in (2, 4, 5, 6, 7, 8, 9, 10, 11, 12)
    ]
    assert "it has no 'split'" in lines[2]
    assert "a result has no 'blue'" in lines[3]
    assert "'steps' cannot be 'many'" in lines[4]
    assert "'bleu' cannot be nan" in lines[6]


OTHER_CONVENTIONS = {
    "tokenised": {"bleu": 27.5, "signature": "tok:moses"},
    "compound_split": {"bleu": 28, "signature": "tok:moses-compounds-split"},
}


@pytest.mark.parametrize(
    "wrong",
    [
        27.5,
        None,
        {},
        {"bleu": 27.5},
        {"bleu": "27.5", "signature": "tok:moses"},
        {"bleu": float("nan"), "signature": "tok:moses"},
        {"bleu": 27.5, "signature": None},
        {"bleu": 27.5, "signature": "tok:moses", "blue": 1},
    ],
)
def test_a_score_under_another_convention_has_bleu_and_signature(tmp_path, capsys, wrong):
    path = tmp_path / "results.jsonl"
    right = dataclasses.replace(RESULT, conventions=OTHER_CONVENTIONS)
    append_result(path, right)
    append_result(path, dataclasses.replace(RESULT, conventions={"tokenised": wrong}))
    assert read_results(path) == [right]
    said = capsys.readouterr().err
    assert said.startswith(f"{path}:2 is not a result and is left out: 'conventions' cannot have ")
    assert f"have {wrong!r} as 'tokenised', only " in said


def test_a_file_name_that_is_not_utf_8(tmp_path):
    path = tmp_path / "results.jsonl"
    # As Python names a file whose name holds a byte 0xff.
    append_result(path, dataclasses.replace(RESULT, split="news\udcff.en"))
    (found,) = read_results(path)
    assert found == dataclasses.replace(RESULT, split="news?.en")


APPEND_MANY = """
import sys
from t2t_keras.tables.results import Result, append_result

for number in range(50):
    result = Result(set=sys.argv[2], problem="p" * 200, split="test", steps=number)
    append_result(sys.argv[1], result)
"""


def test_several_processes_append_whole_lines(tmp_path, capsys):
    path = tmp_path / "results.jsonl"
    processes = [
        subprocess.Popen([sys.executable, "-c", APPEND_MANY, str(path), name]) for name in "abc"
    ]
    assert [process.wait() for process in processes] == [0, 0, 0]
    found = [(result.set, result.steps) for result in read_results(path)]
    assert sorted(found) == [(name, number) for name in "abc" for number in range(50)]
    assert capsys.readouterr().err == ""


def test_what_cannot_be_written_or_read_is_one_message(tmp_path):
    with pytest.raises(UserError, match=r"cannot be added to .*Is a directory.*97\.25"):
        append_result(tmp_path, RESULT)
    with pytest.raises(UserError, match="cannot be added to /dev/full: No space"):
        append_result("/dev/full", RESULT)
    with pytest.raises(UserError, match="cannot be read: Is a directory"):
        read_results(tmp_path)
