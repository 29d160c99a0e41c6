import io
import os
import sys
import types
from pathlib import Path

import numpy as np
import pytest

from t2t_keras.data.problem import Problem
from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.files import first_hypotheses, score_file, translate_file
from t2t_keras.decoding.translation import Hypothesis, PairScore, Translation
from t2t_keras.errors import UserError

MADE_BY = {"checkpoint": "model.ckpt-1"}


class Repeats:
    """Translates each line to what it must begin with and itself; "|" is a line break.

    A line that is "stop" interrupts the job.
    """

    forbidden = ()

    def __init__(self, problem=None, **config):
        self.config = DecodeConfig(lines_at_once=2, **config)
        self.problem = problem or Problem()
        self.translated = 0

    def translate_stream(self, lines, prefixes, first_number, progress):
        for number, (line, prefix) in enumerate(zip(lines, prefixes, strict=True), first_number):
            if line == "stop":
                raise KeyboardInterrupt
            self.translated += 1
            text = prefix + line.replace("|", "\n")
            hypotheses = (Hypothesis(text, -0.5), Hypothesis(f"{number}", -1.25))
            finished = self.problem.finished(line, text)
            cut = 3 if line == "long" else 0
            yield Translation(text, -0.5, hypotheses, cut=cut, finished=finished)
        progress(len(lines))

    def check_one_model(self):
        pass

    def align(self, lines, translations):
        return [[(number, 0)] for number, _ in enumerate(lines)]

    def score(self, sources, targets, names):
        return [PairScore(-float(len(target)), -np.ones(len(target))) for target in targets]


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
    for name, text in (("2", "x\ny\n"), ("4", "x\ny\nz\n\n")):
        with pytest.raises(UserError, match=f"{name} has {name} lines, .*in.txt has 3"):
            translate_file(Repeats(), source, output, MADE_BY, prefixes=write(name, text))
    assert output.read_text() == "x a\nb\nyc\n", "the old file stays"


def test_prefixes_of_standard_input(pipe, write, tmp_path, capsys):
    output, prefixes = tmp_path / "out.txt", write("p.txt", "x \ny \nz \n")
    pipe(b"a\n")
    translate_file(Repeats(), "-", output, MADE_BY, prefixes)
    assert output.read_text() == "x a\n"
    pipe(b"a\n" * 4)
    with pytest.raises(UserError, match=r"p.txt has 3 lines, - has at least 4"):
        translate_file(Repeats(), "-", tmp_path / "other.txt", MADE_BY, prefixes)


def test_an_empty_file(write, tmp_path, capsys):
    output = tmp_path / "out.txt"
    translate_file(Repeats(), write("in.txt", ""), output, MADE_BY)
    assert output.read_bytes() == b""
    assert "0 lines, 0 of them blank" in capsys.readouterr().out


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
        (dict(alignments="b.txt"), r"alignments: None there, b.txt asked for"),
        (dict(prefixes="x\n"), "prefixes:  there, [0-9a-f]{64} asked for"),
        (dict(record="{"), "progress.json cannot be read"),
    ],
)
def test_another_job_does_not_go_on(write, tmp_path, change, message):
    source, output = write("in.txt", "a\nb\nstop\n"), tmp_path / "out.txt"
    with pytest.raises(KeyboardInterrupt):
        translate_file(Repeats(), source, output, MADE_BY)
    source.write_text(change.get("source", "a\nb\nc\n"))
    more = {name: tmp_path / change[name] for name in ("alignments",) if name in change}
    if "prefixes" in change:
        more["prefixes"] = write("p.txt", change["prefixes"] * 3)
    if "partial" in change:
        (tmp_path / "out.txt.partial").write_text(change["partial"])
    if "record" in change:
        (tmp_path / "out.txt.progress.json").write_text(change["record"])
    translator, made_by = Repeats(**change.get("config", {})), change.get("made_by", MADE_BY)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(UserError, match=message):
        translate_file(translator, source, output, made_by, **more)
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("gone", ["out.txt.partial", "out.txt.progress.json"])
def test_a_job_begins_anew_where_what_it_left_is_deleted(write, tmp_path, gone):
    source, output = write("in.txt", "a\nb\nstop\n"), tmp_path / "out.txt"
    with pytest.raises(KeyboardInterrupt):
        translate_file(Repeats(), source, output, MADE_BY)
    (tmp_path / gone).unlink()
    source.write_text("b\na\nc\n")
    translate_file(Repeats(), source, output, MADE_BY)
    assert output.read_text() == "b\na\nc\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.txt", "out.txt"]


def test_two_jobs_do_not_write_to_one_output(write, tmp_path):
    source, output = write("in.txt", "a\nb\nc\n"), tmp_path / "out.txt"

    class StartsAnother(Repeats):
        def translate_stream(self, *arguments):
            with pytest.raises(UserError, match=r"Another process is writing .*out\.txt\.partial"):
                translate_file(Repeats(), source, output, MADE_BY)
            return super().translate_stream(*arguments)

    translate_file(StartsAnother(), source, output, MADE_BY)
    assert output.read_text() == "a\nb\nc\n"


class Trees(Problem):
    """A problem whose outputs are finished into a file of their own."""

    finished_suffix = "trees"


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (dict(output="in.txt"), r"write over .*in\.txt, which is read"),
        (dict(output="link"), r"write over .*in\.txt, which is read"),
        (dict(output="hard"), r"write over .*hard, which is read"),
        (dict(output="new/../in.txt"), "which is read"),
        (dict(output="p.txt", prefixes="p.txt"), r"p\.txt, which is read"),
        (dict(output="r.txt", spared=["r.txt"]), r"r\.txt, which is read"),
        (dict(output="out", alignments="in.txt"), r"in\.txt, which is read"),
        (dict(output="out", alignments="out"), r"out, another output"),
        (dict(output="out", alignments="out.partial"), r"out\.partial, another output"),
        (dict(output="out", alignments="out.progress.json"), "another output"),
        (dict(output="out", alignments="out.trees"), "another output"),
        (dict(output="r.txt", references="r.txt"), r"r\.txt, which is read"),
        (dict(output="out", references="out.reference.trees"), "reference.trees, which is read"),
        (
            dict(output="out", references="r.txt", attention="out.reference.trees"),
            "reference.trees, another output",
        ),
        (dict(source="/dev/null", output="out", references="r.txt"), "/dev/null can be read only"),
        (dict(source="out.partial", output="out"), r"out\.partial, which is read"),
        (dict(output="out", alignments="folder"), "folder is a directory"),
        (dict(output="folder"), r"folder is a directory: .* folder/out"),
        (dict(output="out", alignments="/dev/null"), "one output"),
    ],
)
def test_no_file_is_written_over_another(write, tmp_path, files, message):
    for name in ("in.txt", "p.txt", "r.txt", "out.partial", "out.reference.trees"):
        write(name, "a\n")
    (tmp_path / "link").symlink_to("in.txt")
    (tmp_path / "hard").hardlink_to(tmp_path / "in.txt")
    for name in ("folder", "new"):
        (tmp_path / name).mkdir()
    before = sorted(tmp_path.iterdir())
    files = {"source": "in.txt", **files, "spared": files.get("spared", ())}
    paths = {name: tmp_path / path for name, path in files.items() if name != "spared"}
    spared = [tmp_path / path for path in files["spared"]]
    translator = Repeats(Trees())
    with pytest.raises(UserError, match=message.replace(" folder", ".*folder")):
        translate_file(translator, **paths, made_by=MADE_BY, spared=spared)
    assert translator.translated == 0
    assert sorted(tmp_path.iterdir()) == before
    assert (tmp_path / "in.txt").read_text() == "a\n"


def test_a_link_stays_one(write, tmp_path):
    (tmp_path / "link").symlink_to("out.txt")
    translate_file(Repeats(), write("in.txt", "a\n"), tmp_path / "link", MADE_BY)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "out.txt").read_text() == "a\n"


def test_all_outputs_of_a_line(write, tmp_path):
    source, output = write("in.txt", "a\nb\nc\n"), tmp_path / "out.txt"

    class Shouted(Trees):
        def finished(self, source, output):
            return f"{source}{output.upper()}"

        def finished_references(self, sources, references):
            return [f"{source}-{right}" for source, right in zip(sources, references, strict=True)]

    more = dict(alignments=tmp_path / "al.txt", references=write("right", "x\ny\nz\n"))
    translate_file(Repeats(Shouted()), source, output, MADE_BY, **more)
    assert output.read_text() == "a\nb\nc\n"
    assert (tmp_path / "out.txt.trees").read_text() == "aA\nbB\ncC\n"
    assert (tmp_path / "out.txt.reference.trees").read_text() == "a-x\nb-y\nc-z\n"
    assert (tmp_path / "al.txt").read_text() == "0-0\n1-0\n0-0\n"
    assert len(list(tmp_path.iterdir())) == 6


def test_attention_goes_on_where_it_was_interrupted(write, tmp_path, monkeypatch):
    def records(translator, lines, translations):
        for line, translation in zip(lines, translations, strict=True):
            if line == "damaged":
                raise UserError("The model gives no probabilities")
            yield f"<{line}>{translation.text}\0\r".encode()

    monkeypatch.setattr("t2t_keras.decoding.files.attention_records", records)
    files = (tmp_path / "out.txt", MADE_BY, None, None, tmp_path / "attention")
    source = write("in.txt", "a\nb\nc\ndamaged\n")
    with pytest.raises(UserError, match="no probabilities"):
        translate_file(Repeats(), source, *files)
    source.write_text("a\nb\nc\nd\n")
    translator = Repeats()
    translate_file(translator, source, *files)
    assert translator.translated == 2
    assert files[-1].read_bytes() == b"<a>a\0\r<b>b\0\r<c>c\0\r<d>d\0\r"
    assert files[0].read_text() == "a\nb\nc\nd\n"
    with pytest.raises(UserError, match="attention gets the attention of whole lines"):
        translate_file(Repeats(split_long=True), source, *files)


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


def test_a_pipe_by_its_name_is_written_to(write, tmp_path):
    reading, writing = os.pipe()
    source = write("in.txt", "a\nb\nc\n")
    translate_file(Repeats(Trees()), source, f"/dev/fd/{writing}", MADE_BY)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        assert file.read() == b"a\nb\nc\n"
    assert list(tmp_path.iterdir()) == [source]


def test_a_device_is_written_to_and_stays_one(write, tmp_path):
    source = write("in.txt", "a\n")
    translate_file(Repeats(), source, "/dev/null", MADE_BY)
    assert Path("/dev/null").is_char_device()
    with pytest.raises(UserError, match=r"/dev/full cannot be written: No space left"):
        translate_file(Repeats(), source, "/dev/full", MADE_BY)


def test_standard_output_that_nobody_reads(write, capfd, monkeypatch):
    """As after `| head -1`: one message, and Python finds nothing to write at its end."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as closed:
        monkeypatch.setattr(sys, "stdout", closed)
        with pytest.raises(UserError, match=r"Standard output cannot be written: Broken pipe"):
            translate_file(Repeats(), write("in.txt", "a\n"), "-", MADE_BY)
        closed.flush()


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


def test_scores_go_on_only_with_weights_of_the_same_type(write, tmp_path, capsys):
    pairs, output = write("pairs.tsv", "a\tb\nc\td\nno tab\n"), tmp_path / "scores"
    with pytest.raises(UserError, match="is not a source, one tab"):
        score_file(Repeats(), pairs, output, MADE_BY)
    with pytest.raises(UserError, match="weights_dtype: float32 there, bfloat16 asked for"):
        score_file(Repeats(weights_dtype="bfloat16"), pairs, output, MADE_BY)
    write("pairs.tsv", "a\tb\nc\td\ne\tf\n")
    # An error asks for more room; what is scored is as good with it.
    score_file(Repeats(max_input_length=1024), pairs, output, MADE_BY)
    assert "2 lines were done before." in capsys.readouterr().err
    assert len(output.read_text().splitlines()) == 3
