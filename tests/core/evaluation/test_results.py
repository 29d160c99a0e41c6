"""A file of results that runs append to."""

import concurrent.futures
import dataclasses
import errno
import json
import os
import resource

import pytest
from refusals import refused

from t2t_keras.evaluation.results import Result, append_result, read_results

RESULT = Result(
    set="transformer_tiny",
    problem="translate_ende_toy",
    split="test",
    hparams={"dropout": 0.0},
    random_seed=1,
    steps=1200,
    seconds=61.5,
    decode={"beam_size": 4, "alpha": 0.6, "most levels": [[[4]]]},
    bleu=97.25,
    conventions={"tokenised": {"bleu": 28, "signature": "tok:moses"}},
)


def test_what_is_appended_is_read(tmp_path):
    path = tmp_path / "new" / "folder" / "results.jsonl"
    # As Python names a file whose name has a byte 0xff.
    other = dataclasses.replace(RESULT, set="von Hand: ü", seconds=61, split="news\udcff.en")
    append_result(path, RESULT)
    append_result(path, other)
    assert read_results(path) == [RESULT, dataclasses.replace(other, split="news?.en")]
    first, _ = path.read_text(encoding="utf-8").splitlines()
    assert json.loads(first) == dataclasses.asdict(RESULT), "a line has every field"
    assert read_results(tmp_path / "nowhere") == []


NAMES = '"set": "x", "problem": "y", "split": "z"'
SCORE = '"bleu": 27.5, "signature": "s"'


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("[1]", ""),
        ("\udcff", ""),
        ("[" * 100_000, ""),
        ('{"set": "x", "problem": "y"}', "'split'"),
        (f'{{{NAMES}, "bl\\u001bue": 1}}', r"bl\x1bue"),
        (f'{{{NAMES}, "steps": "many"}}', "'steps'"),
        (f'{{{NAMES}, "bleu": NaN}}', "'bleu'"),
        (f'{{{NAMES}, "bleu": 1e999}}', "'bleu'"),
        (f'{{{NAMES}, "bleu": 1{"0" * 400}}}', ""),
        (f'{{{NAMES}, "decode": {{"alpha": 1e400}}}}', "'decode'"),
        (f'{{{NAMES}, "decode": {{"a": [[[[5]]]]}}}}', "'decode'"),
        (f'{{{NAMES}, "hardware": "\\ud800"}}', "'hardware'"),
        (f'{{{NAMES}, "main": {{"rouge": "high"}}}}', "'main'"),
        (f'{{{NAMES}, "conventions": {{"tokenised": 27.5}}}}', "'tokenised'"),
        (f'{{{NAMES}, "conventions": {{"tokenised": {{"bleu": 27.5}}}}}}', "'tokenised'"),
        (f'{{{NAMES}, "conventions": {{"tokenised": {{{SCORE}, "blue": 1}}}}}}', "'tokenised'"),
    ],
)
def test_a_line_that_is_no_result_is_named_and_left_out(tmp_path, capsys, line, named):
    path = tmp_path / "results.jsonl"
    append_result(path, RESULT)
    with path.open("a", errors="surrogateescape") as file:
        # The disk was full at the end, and the next writer begins a line of its own.
        file.write(f"\n{line}\n{line[:30]}")
    append_result(path, RESULT)
    # From before results named their checkpoint.
    with path.open("a") as file:
        file.write(f'{{{NAMES}, "bleu": 1}}\n')
    assert read_results(path) == [RESULT, RESULT, Result("x", "y", "z", bleu=1)]
    first, torn = capsys.readouterr().err.splitlines()
    assert first.startswith(f"{path}:3 ")
    assert named in first
    assert torn.startswith(f"{path}:4 ")


@pytest.mark.parametrize(
    ("problem", "f1", "expected"),
    [("translate_ende", None, False), ("my_trees", 90.5, True), ("parsing_wsj", None, True)],
)
def test_what_is_parsing(problem, f1, expected):
    assert dataclasses.replace(RESULT, problem=problem, f1=f1).is_parsing == expected


@pytest.mark.parametrize(
    ("decode", "expected"),
    [
        ({"beam_size": 4, "disturb": "upper", "ensemble": [], "forbidden": ""}, True),
        ({"engine": "ctranslate2"}, False),
        ({"ensemble": ["other"]}, False),
        ({"forbidden": "words.txt"}, False),
        ({"flag_of_a_plug_in_that_is_not_here": "file"}, False),
    ],
)
def test_what_else_had_a_part_in_a_score(decode, expected):
    assert dataclasses.replace(RESULT, decode=decode).is_of_the_model_alone == expected


def test_several_writers_append_whole_lines(tmp_path, capsys):
    path = tmp_path / "results.jsonl"

    results = [dataclasses.replace(RESULT, steps=steps) for steps in range(150)]
    with concurrent.futures.ThreadPoolExecutor(3) as threads:
        list(threads.map(append_result, [path] * 150, results))
    assert sorted(read_results(path), key=lambda result: result.steps) == results
    assert capsys.readouterr().err == ""


def test_what_cannot_be_written_or_read_is_one_message(tmp_path):
    with refused("not_written", tmp_path, os.strerror(errno.EISDIR), 97.25):
        append_result(tmp_path, RESULT)
    with refused("not_written", "/dev/full", os.strerror(errno.ENOSPC)):
        append_result("/dev/full", RESULT)
    with refused("not_read", tmp_path, os.strerror(errno.EISDIR)):
        read_results(tmp_path)
    # The disk is full in the middle of the line.
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50, limits[1]))
    try:
        with refused("not_written", tmp_path / "new", 50):
            append_result(tmp_path / "new", RESULT)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
