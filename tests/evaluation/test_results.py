"""A file of results that runs append to."""

import concurrent.futures
import dataclasses
import json

import pytest

from t2t_keras.errors import UserError
from t2t_keras.evaluation.results import Result, append_result, read_results

RESULT = Result(
    set="transformer_tiny",
    problem="translate_ende_toy",
    split="test",
    hparams={"dropout": 0.0},
    random_seed=1,
    steps=1200,
    seconds=61.5,
    decode={"beam_size": 4, "alpha": 0.6},
    bleu=97.25,
    conventions={"tokenised": {"bleu": 28, "signature": "tok:moses"}},
)


def test_what_is_appended_is_read(tmp_path):
    path = tmp_path / "new" / "results.jsonl"
    # As Python names a file whose name has a byte 0xff.
    other = dataclasses.replace(RESULT, set="von Hand: ü", seconds=61, split="news\udcff.en")
    append_result(path, RESULT)
    append_result(path, other)
    assert read_results(path) == [RESULT, dataclasses.replace(other, split="news?.en")]
    first, _ = path.read_text(encoding="utf-8").splitlines()
    assert json.loads(first) == dataclasses.asdict(RESULT), "a line has every field"
    assert read_results(tmp_path / "nowhere") == []


def test_a_line_from_before_results_named_their_checkpoint_is_read(tmp_path):
    path = tmp_path / "results.jsonl"
    path.write_text('{"set": "x", "problem": "y", "split": "dev", "steps": 3, "bleu": 1.5}\n')
    (result,) = read_results(path)
    assert (result.bleu, result.checkpoint) == (1.5, "")


NAMES = b'"set": "x", "problem": "y", "split": "z"'


@pytest.mark.parametrize(
    ("line", "named"),
    [
        (b"[1]", ""),
        (b"\xff", ""),
        (b"[" * 100_000, ""),
        (b'{"set": "x", "problem": "y"}', "'split'"),
        (b"{%s, " % NAMES + b'"bl\\u001bue": 1}', r"bl\x1bue"),
        (b"{%s, " % NAMES + b'"steps": "many"}', "'steps' cannot be 'many'"),
        (b"{%s, " % NAMES + b'"bleu": NaN}', "'bleu' cannot be nan"),
        (b"{%s, " % NAMES + b'"bleu": 1e999}', "'bleu'"),
        (b"{%s, " % NAMES + b'"bleu": 1%s}' % (b"0" * 400), ""),
        *(
            (b'{%s, "conventions": {"tokenised": %s}}' % (NAMES, wrong), "'tokenised'")
            for wrong in (
                b"27.5",
                b'{"bleu": 27.5}',
                b'{"bleu": NaN, "signature": "s"}',
                b'{"bleu": 27.5, "signature": null}',
                b'{"bleu": 27.5, "signature": "s", "blue": 1}',
            )
        ),
    ],
)
def test_a_line_that_is_no_result_is_named_and_left_out(tmp_path, capsys, line, named):
    path = tmp_path / "results.jsonl"
    append_result(path, RESULT)
    with path.open("ab") as file:
        # The disk was full at the end, and the next writer begins a line of its own.
        file.write(b"\n" + line + b"\n" + line[:30])
    append_result(path, RESULT)
    assert read_results(path) == [RESULT, RESULT]
    said = capsys.readouterr()
    assert said.out == ""
    first, torn = said.err.splitlines()
    assert first.startswith(f"{path}:3 ")
    assert named in first
    assert torn.startswith(f"{path}:4 ")


def test_several_writers_append_whole_lines(tmp_path, capsys):
    path = tmp_path / "results.jsonl"

    def append_many(name):
        for number in range(50):
            append_result(path, Result(set=name, problem="p" * 200, split="test", steps=number))

    with concurrent.futures.ThreadPoolExecutor(3) as threads:
        list(threads.map(append_many, "abc"))
    found = [(result.set, result.steps) for result in read_results(path)]
    assert sorted(found) == [(name, number) for name in "abc" for number in range(50)]
    assert capsys.readouterr().err == ""


def test_what_cannot_be_written_or_read_is_one_message(tmp_path):
    with pytest.raises(UserError, match=r"Is a directory.*97\.25"):
        append_result(tmp_path, RESULT)
    with pytest.raises(UserError, match=r"/dev/full.* No space"):
        append_result("/dev/full", RESULT)
    with pytest.raises(UserError, match="Is a directory"):
        read_results(tmp_path)
