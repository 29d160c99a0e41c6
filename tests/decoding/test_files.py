import io
import sys
import types

import numpy as np
import pytest

from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.files import first_hypotheses, score_file, translate_file
from t2t_keras.decoding.translation import Hypothesis, PairScore, Translation
from t2t_keras.errors import UserError

MADE_BY = {"checkpoint": "model.ckpt-1"}


class Repeats:
    """Translates each line to what it must begin with and itself; "|" is a line break.

    A line that is "stop" interrupts the job.
    """

    def __init__(self, **config):
        self.config = DecodeConfig(lines_at_once=2, **config)
        self.translated = 0

    def translate_stream(self, lines, prefixes, first_number, progress):
        for number, (line, prefix) in enumerate(zip(lines, prefixes, strict=True), first_number):
            if line == "stop":
                raise KeyboardInterrupt
            self.translated += 1
            text = prefix + line.replace("|", "\n")
            hypotheses = (Hypothesis(text, -0.5), Hypothesis(f"{number}", -1.25))
            yield Translation(text, -0.5, hypotheses, cut=3 if line == "long" else 0)
        progress(len(lines))

    def score(self, sources, targets):
        return [PairScore(-float(len(target)), -np.ones(len(target))) for target in targets]


@pytest.fixture
def write(tmp_path):
    """write(name, text): the path of a new file."""

    def write(name, text):
        path = tmp_path / name
        path.write_bytes(text.encode("utf-8"))
        return path

    return write


def test_lines_stay_lines(write, tmp_path, capsys):
    output = tmp_path / "new" / "out.txt"
    source = write("in.txt", "a|b\n\nc\u2028d\nlong\ne\tf\n")
    translate_file(Repeats(), source, output, MADE_BY)
    assert output.read_bytes().decode("utf-8") == "a b\n\nc\u2028d\nlong\ne f\n"
    assert [path.name for path in output.parent.iterdir()] == ["out.txt"]
    printed = capsys.readouterr().out
    assert "5 lines, 1 of them blank" in printed
    assert "1 lines had more than max_input_length=512 tokens; 3 tokens were cut off" in printed
    assert "2 translations held line breaks or tabs" in printed


def test_all_hypotheses_and_scores(write, tmp_path):
    source, output = write("in.txt", "a\nb\n"), tmp_path / "out.txt"
    config = dict(return_beams=True, beam_size=2)
    translate_file(Repeats(**config), source, output, MADE_BY)
    assert output.read_text() == "a\t0\nb\t1\n"
    translator = Repeats(**config, write_beam_scores=True)
    translate_file(translator, source, output, MADE_BY)
    assert output.read_text() == "a\t-0.5000\t0\t-1.2500\nb\t-0.5000\t1\t-1.2500\n"
    assert first_hypotheses(output, translator.config) == ["a", "b"]


def test_prefixes(write, tmp_path):
    source, output = write("in.txt", "a\nb\nc\n"), tmp_path / "out.txt"
    translate_file(Repeats(), source, output, MADE_BY, prefixes=write("p.txt", "x \n\ny\n"))
    assert output.read_text() == "x a\nb\nyc\n"
    with pytest.raises(UserError, match=r"short.txt has 2 lines, .*in.txt has more"):
        translate_file(Repeats(), source, output, MADE_BY, prefixes=write("short.txt", "x\ny\n"))
    assert output.read_text() == "x a\nb\nyc\n", "the old file stays until the new one is whole"


def test_an_interrupted_job_goes_on(write, tmp_path, capsys):
    output, prefixes = tmp_path / "out.txt", write("p.txt", "1\n2\n3\n4\n5\n")
    lines = ["a", "long", "", "d", "e"]
    source = write("in.txt", "\n".join([*lines[:3], "stop", "e"]) + "\n")
    with pytest.raises(KeyboardInterrupt):
        translate_file(Repeats(), source, output, MADE_BY, prefixes)
    assert not output.exists()
    # What was written, but not recorded before the interruption, is not counted on.
    with (tmp_path / "out.txt.partial").open("a") as partial:
        partial.write("half a li")
    source.write_text("\n".join(lines) + "\n")
    translator = Repeats()
    translate_file(translator, source, output, MADE_BY, prefixes)
    assert output.read_text() == "1a\n2long\n3\n4d\n5e\n"
    assert translator.translated == 3
    printed = capsys.readouterr()
    assert "2 lines were done before" in printed.err
    assert "5 lines, 1 of them blank" in printed.out
    assert "1 lines had more" in printed.out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.txt", "out.txt", "p.txt"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (dict(source="b\na\nstop\n"), "source has changed.* first 2 lines"),
        (dict(source="a\n"), "source has changed"),
        (dict(made_by={"checkpoint": "2"}), "checkpoint: model.ckpt-1 there, 2 asked for"),
        (dict(config={"alpha": 1.0}), "alpha: 0.6 there, 1.0 asked for"),
        (dict(partial=""), "shorter than when it was written"),
        (dict(record="{"), "progress.json cannot be read"),
    ],
)
def test_another_job_does_not_go_on(write, tmp_path, change, message):
    source, output = write("in.txt", "a\nb\nstop\n"), tmp_path / "out.txt"
    with pytest.raises(KeyboardInterrupt):
        translate_file(Repeats(), source, output, MADE_BY)
    source.write_text(change.get("source", "a\nb\nc\n"))
    if "partial" in change:
        (tmp_path / "out.txt.partial").write_text(change["partial"])
    if "record" in change:
        (tmp_path / "out.txt.progress.json").write_text(change["record"])
    translator, made_by = Repeats(**change.get("config", {})), change.get("made_by", MADE_BY)
    with pytest.raises(UserError, match=message):
        translate_file(translator, source, output, made_by)


def test_a_full_disk_keeps_what_is_done(write, tmp_path, monkeypatch):
    source, output = write("in.txt", "a\nb\nc\n"), tmp_path / "out.txt"
    output.write_text("old\n")
    calls = []

    def full(descriptor):
        calls.append(descriptor)
        if len(calls) > 2:
            raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", full)
        with pytest.raises(UserError, match=r"No space left on device.* first 2 lines are good"):
            translate_file(Repeats(), source, output, MADE_BY)
    assert output.read_text() == "old\n"
    translator = Repeats()
    translate_file(translator, source, output, MADE_BY)
    assert (output.read_text(), translator.translated) == ("a\nb\nc\n", 1)


def test_what_is_no_text_is_named_and_costs_nothing(write, tmp_path):
    source, output = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_bytes(b"a\nb\nc\n\xe4\n")
    with pytest.raises(UserError, match=r"in.txt:4 is not UTF-8 .*0xe4"):
        translate_file(Repeats(), source, output, MADE_BY)
    source.write_bytes(b"a\nb\nc\nd\n")
    translator = Repeats()
    translate_file(translator, source, output, MADE_BY)
    assert (output.read_text(), translator.translated) == ("a\nb\nc\nd\n", 2)
    with pytest.raises(UserError, match="nowhere cannot be read"):
        translate_file(Repeats(), tmp_path / "nowhere", tmp_path / "other", MADE_BY)
    assert not list(tmp_path.glob("other*"))


@pytest.fixture
def pipe(monkeypatch):
    """pipe(bytes): what standard output gets; standard input gives the bytes."""

    def pipe(given):
        streams = [types.SimpleNamespace(buffer=io.BytesIO(each)) for each in (given, b"")]
        streams[1].flush = streams[1].write = lambda *_: None
        monkeypatch.setattr(sys, "stdin", streams[0])
        monkeypatch.setattr(sys, "stdout", streams[1])
        return streams[1].buffer

    return pipe


def test_from_standard_input_to_standard_output(pipe, capsys):
    # As in a file, a byte order mark is no part of the text.
    written = pipe("\ufeffa\r\n\nä".encode())
    translate_file(Repeats(), "-", "-", MADE_BY)
    assert written.getvalue().decode("utf-8") == "a\n\nä\n"
    assert "3 lines, 1 of them blank" in capsys.readouterr().err


def test_only_one_output_is_standard_output(write, tmp_path):
    with pytest.raises(UserError, match="one output"):
        translate_file(Repeats(), write("in.txt", "a\n"), "-", MADE_BY, alignments=tmp_path / "x")


def test_scores(write, tmp_path, capsys):
    pairs, output = write("pairs.tsv", "a\tbb\nc\tdddd\n\te\n"), tmp_path / "scores"
    score_file(Repeats(), pairs, output, MADE_BY)
    assert output.read_text().splitlines() == [
        "-2.0000\t2\t2.718\t-1.0000 -1.0000",
        "-4.0000\t4\t2.718\t-1.0000 -1.0000 -1.0000 -1.0000",
        "-1.0000\t1\t2.718\t-1.0000",
    ]
    assert "3 pairs, 7 tokens, log-probability a token -1.0000, perplexity 2.718" in (
        capsys.readouterr().out
    )
    with pytest.raises(UserError, match=r"pairs.tsv:3 is not a source, one tab .* has 0 tabs"):
        score_file(Repeats(), write("pairs.tsv", "a\tb\nc\td\ne\n"), output, MADE_BY)
