"""Jobs over files and streams, with a translator that repeats its lines."""

import hashlib
import io
import os
import re
import sys
import threading
import types
from pathlib import Path

import numpy as np
import pytest
from refusals import refused

from t2t_keras.bin.flags import run_command
from t2t_keras.data.problem import Problem
from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.disturbed import translate_disturbed
from t2t_keras.decoding.file_job import (
    decodes_name,
    first_hypotheses,
    score_file,
    translate_file,
    translate_interactively,
)
from t2t_keras.decoding.line_job import Shard, read_manifest
from t2t_keras.decoding.lines import LineStage
from t2t_keras.decoding.translation import Hypothesis, PairScore, Translation
from t2t_keras.errors import UserError

MADE_BY = {"checkpoint": "model.ckpt-1"}
RECORD = """{"read": "", "counts": {}, "files": {"translations": "out.txt"}, "provenance": {},
"bytes": %s, "lines": %s}"""


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()


class Mended(LineStage):
    """Counts what it has mended, by the notes of lines."""

    def __init__(self, name="mended"):
        self.name = name

    def counts(self, notes):
        numbers = list(notes)
        return {"lines mended": len(numbers), "mended": sum(numbers)}

    def report(self, counts):
        if counts.get("mended"):
            yield f"{counts['lines mended']} lines: {counts['mended']} mended"

    def remarks(self, note):
        yield f"({note} mended: \x07)"


class Repeats:
    """Translates each line to its prefix and itself; "stop" interrupts it.

    "|" is a line break, "%" what a stage has mended, "&" a hypothesis that is not taken.
    """

    stages = (Mended(),)

    forbidden = ()
    engine = types.SimpleNamespace(check_attention=lambda: None)

    def __init__(self, problem=None, **config):
        self.config = DecodeConfig(lines_at_once=2, **config)
        self.problem = problem or Problem()
        self.translated = 0

    def translate_stream(self, lines, prefixes, first_number, progress):
        prefixes = prefixes or [""] * len(lines)
        for number, (line, prefix) in enumerate(zip(lines, prefixes, strict=True), first_number):
            if line == "stop":
                raise KeyboardInterrupt
            self.translated += 1
            text = prefix + line.replace("|", "\n")
            cuts = (3 if line == "long" else 0), (2 if prefix == "long" else 0)
            hypotheses = (Hypothesis(text, -0.5), Hypothesis(f"{number}", -1.25))
            postprocessed = self.problem.postprocess(line, text)
            repairs = dict(rank=line.count("&"))
            if count := line.count("%"):
                repairs["notes"] = {"mended": count}
            yield Translation(
                text, -0.5, hypotheses, (), *cuts, postprocessed=postprocessed, **repairs
            )
        progress(len(lines))

    def translate(self, lines, prefixes):
        return list(self.translate_stream(lines, prefixes, 0, lambda count: None))

    def align(self, lines, translations):
        return [[(number, 0)] for number, _ in enumerate(lines)]

    def score(self, sources, targets, names):
        return [PairScore(-float(len(target)), -np.ones(len(target))) for target in targets]


class Trees(Problem):
    """A problem whose outputs are postprocessed into a file of their own."""

    postprocessed_suffix = "trees"


def integers(text):
    """Returns the whole numbers in each line, apart from those in paths."""
    numbers = r"(?<![\w.,/-])\d+(?![\w.]\d|\w)"
    return [[int(number) for number in re.findall(numbers, line)] for line in text.splitlines()]


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def interrupted(write, tmp_path):
    """Source and output of a job that was interrupted after the lines "a" and "b"."""
    source, output = write("in.txt", "a\nb\nstop\n"), tmp_path / "out.txt"
    with pytest.raises(KeyboardInterrupt):
        translate_file(Repeats(), source, output, MADE_BY)
    source.write_text("a\nb\nc\n")
    return source, output


@pytest.fixture
def run(write, tmp_path):
    """run(text, translator, **options): translates text; returns that of out.txt."""

    def run(text, translator=None, **options):
        source, output = write("in.txt", text), tmp_path / "out.txt"
        translate_file(translator or Repeats(), source, output, MADE_BY, **options)
        return output.read_bytes().decode("utf-8")

    return run


def test_lines_stay_lines_and_a_link_stays_one(run, tmp_path, capsys):
    (tmp_path / "out.txt").symlink_to("other.txt")
    assert run("a|b\n\nc\u2028d\nlong\ne\tf\n%%\n%\n&&\nlong") == (
        "a b\n\nc\u2028d\nlong\ne f\n%%\n%\n&&\nlong\n"
    )
    assert names(tmp_path) == ["in.txt", "other.txt", "out.txt"]
    assert (tmp_path / "out.txt").is_symlink()
    # Lines and blank ones; cut ones; other hypotheses; line breaks; what was mended.
    expected = [[9, 1], [512, 2, 6], [1], [2], [2, 3]]
    assert integers(capsys.readouterr().out) == expected
    assert run("") == ""


def test_what_it_was_made_from_is_stated(write, tmp_path):
    source, output, translator = write("in.txt", "a\nb\n"), tmp_path / "out.txt", Repeats()
    (tmp_path / "out.txt.json").mkdir()  # As on a full disk, it cannot be written.
    with refused("not_written", "out.txt.json"):
        translate_file(translator, source, output, MADE_BY, write_manifest=True)
    assert not output.exists()
    (tmp_path / "out.txt.json").rmdir()
    translate_file(translator, source, output, MADE_BY, write_manifest=True)
    assert translator.translated == 2
    stated = read_manifest(output)
    assert stated.items() >= dict(**MADE_BY, prefixes="", beam_size=4, seconds=None).items()
    assert stated["source"] == digest("a\nb\n")
    output.write_text("other\n")
    assert read_manifest(output) == {}


def test_of_disturbed_text_only_what_is_missing_is_translated(write, tmp_path):
    source, output, lines = write("in", "a b\nc d\n"), tmp_path / "out", ["A B", "C D"]

    def done(*kinds, **config):
        files = translate_disturbed(
            Repeats(**config), source, source, output, MADE_BY, kinds, write_manifest=True
        )
        return [(file.kind, file.is_new) for file in files]

    assert done() == [("", True)]
    assert done("upper") == [("", True), ("upper", True)]
    outputs = [output, *(tmp_path / f"out.upper{end}" for end in ("", ".source", ".reference"))]
    assert [path.read_text().splitlines() for path in outputs[1:]] == [lines] * 3
    assert names(tmp_path) == sorted(["in", "out.json", *(path.name for path in outputs)])
    with refused("output_is_input", outputs[3]):
        next(translate_disturbed(Repeats(), source, outputs[3], output, MADE_BY, ["upper"]))
    # Of an interrupted job what is complete is not, if it is there and of the same settings.
    for config, are_new in (({}, [False, True, True]), (dict(alpha=0.5), [True] * 3)):
        files = translate_disturbed(Repeats(), source, source, output, MADE_BY, ["upper", "typos"])
        assert [next(files).kind for _ in range(3)] == ["", "upper", "typos"]
        files.close()
        (tmp_path / "out.upper").unlink()
        assert [is_new for _, is_new in done("upper", "typos", **config)] == are_new


def test_all_hypotheses_and_scores(run, tmp_path):
    config = dict(return_beams=True, beam_size=2)
    assert run("a\nb\n", Repeats(**config)) == "a\t0\nb\t1\n"
    translator = Repeats(**config, write_beam_scores=True)
    assert run("a\nb\n", translator) == "a\t-0.5000\t0\t-1.2500\nb\t-0.5000\t1\t-1.2500\n"
    assert first_hypotheses(tmp_path / "out.txt", vars(translator.config)) == ["a", "b"]
    translator = Repeats(write_beam_scores=True)
    assert run("a\nb\n", translator) == "a\t-0.5000\nb\t-0.5000\n"
    config = translator.config
    called = [decodes_name("p.dev", config, engine) for engine in ("", "ctranslate2 int8")]
    assert called == [f"p.dev.{of}beam4.alpha0.6.decodes" for of in ("", "ctranslate2.int8.")]
    assert first_hypotheses(tmp_path / "out.txt", vars(translator.config)) == ["a", "b"]


def test_all_outputs_of_a_line(write, tmp_path):
    class Shouted(Trees):
        def postprocess(self, source, output):
            return f"{source}{output.upper()}"

        def postprocess_references(self, sources, references):
            return [f"{source}-{right}" for source, right in zip(sources, references, strict=True)]

    source, output = write("in.txt", "a\nb\nc\n"), tmp_path / "out.txt"
    more = dict(alignments=tmp_path / "al.txt", references=write("right", "x\ny\nz\n"))
    translate_file(Repeats(Shouted()), source, output, MADE_BY, **more)
    assert output.read_text() == "a\nb\nc\n"
    assert (tmp_path / "out.txt.trees").read_text() == "aA\nbB\ncC\n"
    assert (tmp_path / "out.txt.reference.trees").read_text() == "a-x\nb-y\nc-z\n"
    assert (tmp_path / "al.txt").read_text() == "0-0\n1-0\n0-0\n"
    assert len(names(tmp_path)) == 6


def test_prefixes(run, write, tmp_path, monkeypatch, capsys):
    prefixes, output = write("p.txt", "x \n\ny\n"), tmp_path / "out.txt"
    assert run("a\nb\nc\n", prefixes=prefixes) == "x a\nb\nyc\n"
    for count in (2, 4):
        with refused("unequal_counts", "p.txt", "in.txt") as refusal:
            run("a\n" * count, prefixes=prefixes)
        assert integers(str(refusal.value)) == [[3, count]]
    with refused("not_a_file"):
        run("a\n", prefixes="-")
    with refused("conflicting_settings", "split_long=true", tmp_path / "attention"):
        run("a\n", Repeats(split_long=True), attention=tmp_path / "attention")
    for count, expected in ((1, "x a\n"), (2, "x a\na\n"), (3, "x a\na\nya\n")):
        stream = types.SimpleNamespace(buffer=io.BytesIO(b"a\n" * count))
        monkeypatch.setattr(sys, "stdin", stream)
        translate_file(Repeats(), "-", output, MADE_BY, prefixes)
        assert output.read_text() == expected
        printed = [line for line in capsys.readouterr().out.splitlines() if "p.txt" in line]
        assert integers("\n".join(printed)) == [[3 - count]] * (count < 3)


def test_an_interrupted_job_is_continued(write, tmp_path, capsys):
    output, prefixes = write("out.txt", "old\n"), write("p.txt", "1\n2\n3\n4\n5\n")
    lines = ["a", "long", "", "d", "e"]
    source = write("in.txt", "\n".join([*lines[:3], "stop", "e"]) + "\n")
    with pytest.raises(KeyboardInterrupt):
        translate_file(Repeats(), source, output, MADE_BY, prefixes)
    assert output.read_text() == "old\n"
    # What was written, but not recorded before the interruption, does not count.
    with (tmp_path / "out.txt.partial").open("a") as partial:
        partial.write("half a li")
    source.write_text("\n".join(lines) + "\n")
    translator = Repeats()
    translate_file(translator, source, output, MADE_BY, prefixes)
    assert output.read_text() == "1a\n2long\n3\n4d\n5e\n"
    assert translator.translated == 3
    printed = capsys.readouterr()
    assert integers(printed.err) == [[2]], "done before"
    assert integers(printed.out) == [[5, 1], [512, 1, 3]]
    assert names(tmp_path) == ["in.txt", "out.txt", "p.txt"]


@pytest.mark.parametrize(
    ("change", "code", "named"),
    [
        (dict(source="b\na\nc\n"), "changed_source", ["out.txt.partial"]),
        (dict(provenance={"checkpoint": "2"}), "other_settings", ["checkpoint: ", "model.ckpt-1"]),
        (dict(config={"alpha": 1.0}), "other_settings", ["alpha: ", "0.6", "1.0"]),
        (dict(alignments="b.txt"), "other_settings", ["alignments: ", "b.txt"]),
        (dict(prefixes="x\n"), "other_settings", ["prefixes: ", digest("x\nx\nx\n")]),
        (dict(stages=[Mended("more")]), "other_settings", ["stages: ", "more"]),
        (dict(record="{}"), "damaged_file", ["out.txt.progress.json"]),
        (dict(record=RECORD % ("[1]", "0")), "damaged_file", ["progress.json"]),
        (dict(record=RECORD % ('{"translations": 4}', '"many"')), "damaged_file", []),
        (dict(record=RECORD % ('{"translations": -4}', "1")), "damaged_file", []),
        (dict(record=RECORD % ('{"translations": 4}', "-1")), "damaged_file", []),
    ],
)
def test_a_job_with_other_settings_is_refused(interrupted, write, tmp_path, change, code, named):
    source, output = interrupted
    if "source" in change:
        source.write_text(change["source"])
    more = {name: tmp_path / change[name] for name in ("alignments",) if name in change}
    if "prefixes" in change:
        more["prefixes"] = write("p.txt", change["prefixes"] * 3)
    if "record" in change:
        (tmp_path / "out.txt.progress.json").write_text(change["record"])
    translator, provenance = Repeats(**change.get("config", {})), change.get("provenance", MADE_BY)
    translator.stages = change.get("stages", translator.stages)
    before = names(tmp_path)
    with refused(code, *named):
        translate_file(translator, source, output, provenance, **more)
    assert names(tmp_path) == before


@pytest.mark.parametrize("lost", ["out.txt.partial", "a line"])
def test_a_job_begins_anew_where_its_files_are_gone(interrupted, run, tmp_path, capsys, lost):
    if lost == "a line":
        (tmp_path / "out.txt.partial").write_text("a\n")
    else:
        (tmp_path / lost).unlink()
    assert run("b\na\nc\n") == "b\na\nc\n"
    assert names(tmp_path) == ["in.txt", "out.txt"]
    assert ("out.txt.partial" in capsys.readouterr().err) == (lost == "a line")


def test_two_jobs_do_not_write_to_one_output(run, tmp_path):
    class StartsAnother(Problem):
        def postprocess(self, source, output, alignment=None):
            with refused("in_use", "out.txt.partial"):
                translate_file(Repeats(), tmp_path / "in.txt", tmp_path / "out.txt", MADE_BY)
            return output

    assert run("a\nb\nc\n", Repeats(StartsAnother())) == "a\nb\nc\n"


@pytest.mark.parametrize(
    ("files", "code", "named"),
    [
        (dict(output="in.txt"), "output_is_input", "in.txt"),
        (dict(output="p.txt", prefixes="p.txt"), "output_is_input", "p.txt"),
        (dict(output="r.txt", inputs=["r.txt"]), "output_is_input", "r.txt"),
        (dict(alignments="in.txt"), "output_is_input", "in.txt"),
        (dict(alignments="out.partial"), "output_twice", "out.partial"),
        (dict(output="o", alignments="o.progress.json"), "output_twice", "o.progress.json"),
        (dict(references="out.reference.trees"), "output_is_input", "reference.trees"),
        (dict(source="/dev/null", references="r.txt"), "not_a_file", "/dev/null"),
        (dict(source="out.partial"), "output_is_input", "out.partial"),
        (dict(alignments="/dev/null"), "not_a_file", "/dev/null"),
        # Not of an interrupted job, which has a record.
        ({}, "output_exists", "out.partial"),
        (dict(source="nowhere"), "not_read", "nowhere"),
    ],
)
def test_no_file_is_written_over_another(write, tmp_path, monkeypatch, files, code, named):
    monkeypatch.chdir(tmp_path)
    for name in ("in.txt", "p.txt", "r.txt", "out.partial", "out.reference.trees"):
        write(name, "a\n")
    translator, before = Repeats(Trees()), names(tmp_path)
    with refused(code, named):
        translate_file(translator, **{"source": "in.txt", "output": "out"} | files, provenance={})
    assert (translator.translated, names(tmp_path)) == (0, before)


@pytest.mark.parametrize(("syncs", "done", "outputs"), [(3, 2, []), (1, 0, ["alignments"])])
def test_a_full_disk_keeps_what_is_done(run, tmp_path, monkeypatch, syncs, done, outputs):
    calls, more = [], {name: tmp_path / name for name in outputs}

    def full(descriptor):
        calls.append(descriptor)
        if len(calls) > syncs:
            raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", full)
        with refused("not_written", "out.txt.partial", "No space left on device") as refusal:
            run("a\nb\nc\n", **more)
        assert integers(str(refusal.value)) == [[done]]
    translator = Repeats()
    assert run("a\nb\nc\n", translator, **more) == "a\nb\nc\n"
    assert translator.translated == 3 - done


@pytest.fixture
def pipe(monkeypatch):
    """pipe(bytes): what standard output gets; standard input gives the bytes."""

    def pipe(content):
        streams = [
            types.SimpleNamespace(buffer=io.BytesIO(stream_content))
            for stream_content in (content, b"")
        ]
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
    assert integers(capsys.readouterr().err) == [[3, 1]]


def test_devices_and_pipes_by_their_names(write, tmp_path):
    source = write("in.txt", "a\nb\nc\n")
    reading, writing = os.pipe()
    translate_file(Repeats(Trees()), source, f"/dev/fd/{writing}", MADE_BY)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        assert file.read() == b"a\nb\nc\n"
    translate_file(Repeats(), source, "/dev/null", MADE_BY)
    assert Path("/dev/null").is_char_device()
    with refused("not_written", "/dev/full"):
        translate_file(Repeats(), source, "/dev/full", MADE_BY)
    assert names(tmp_path) == ["in.txt"]


def test_a_named_pipe_is_read_again_to_continue(tmp_path, capsys):
    pipe, output = tmp_path / "pipe", tmp_path / "out.txt"
    os.mkfifo(pipe)

    def translate(text):
        threading.Thread(target=pipe.write_text, args=[text], daemon=True).start()
        translate_file(Repeats(), pipe, output, MADE_BY)

    with pytest.raises(KeyboardInterrupt):
        translate("a\nb\nstop\n")
    # `refused` would hold the traceback, and with it the pipe open.
    with pytest.raises(UserError, check=lambda error: error.code == "changed_source"):
        translate("b\nc\n")
    translate("a\nb\nc\n")
    assert output.read_text() == "a\nb\nc\n"
    assert integers(capsys.readouterr().err) == [[2]], "done before"


def test_standard_output_that_nobody_reads(write, monkeypatch, capsys):
    """As after `| head -1`: silence, and Python finds nothing to write at its end."""
    source = write("in.txt", "a\n")
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as closed:
        monkeypatch.setattr(sys, "stdout", closed)
        with pytest.raises(SystemExit) as stop:
            run_command(
                lambda flags: None,
                lambda flags: translate_file(Repeats(), source, "-", MADE_BY),
                ["t2t-decoder"],
            )
        closed.flush()
    assert stop.value.code == 141
    assert capsys.readouterr().err == ""


def test_scores(write, tmp_path, capsys):
    pairs, output = tmp_path / "pairs.tsv", tmp_path / "scores"
    for third, tabs in (("no tab", 0), ("a\tb\tc", 2)):
        write("pairs.tsv", f"a\tbb\nc\tdddd\n{third}\n")
        with refused("bad_line", "pairs.tsv:3") as refusal:
            score_file(Repeats(), pairs, output, MADE_BY)
        assert integers(str(refusal.value)) == [[3, tabs]]
    with refused("other_settings", "weights_dtype: ", "float32", "bfloat16"):
        score_file(Repeats(weights_dtype="bfloat16"), pairs, output, MADE_BY)
    write("pairs.tsv", "a\tbb\nc\tdddd\n\te\n")
    # A pair may be too long; earlier scores are as good with more room.
    score_file(Repeats(max_input_length=1024), pairs, output, MADE_BY)
    assert output.read_text().splitlines() == [
        "-2.0000\t2\t2.718\t-1.0000 -1.0000",
        "-4.0000\t4\t2.718\t-1.0000 -1.0000 -1.0000 -1.0000",
        "-1.0000\t1\t2.718\t-1.0000",
    ]
    printed = capsys.readouterr()
    assert integers(printed.err) == [[2]] * 2, "done before"
    assert integers(printed.out) == [[3, 7]], "pairs and tokens"
    assert "-1.0000" in printed.out
    assert "2.718" in printed.out


def test_a_translation_without_any_chance():
    assert PairScore(-1500.0, np.zeros(2)).perplexity == np.inf


def answers(*lines, **options):
    """What a user is shown who types lines and Ctrl-C."""
    actual = []
    translate_interactively(Repeats(**options), [*lines, "stop"], actual.append)
    return actual


def test_interactive(capsys):
    class Bracketed(Problem):
        def postprocess(self, source, output, alignment=None):
            return f"({output})"

    assert answers("a man", "b\tc\td", problem=Bracketed()) == ["(a man)", "(c\tdb)"]
    source_cut, prefix_cut, answer = answers("long\tlong")
    assert integers(f"{source_cut}\n{prefix_cut}") == [[3], [2]]
    assert answer == "longlong"
    assert answers("a%%") == ["a%%", "(2 mended: \\x07)"]
    assert answers("\x1b]0;a\x07") == ["\\x1b]0;a\\x07"], "nothing controls the terminal"
    for setting in ("return_beams", "write_beam_scores"):
        assert answers("\x1b[2J", **{setting: True}) == ["-0.5000\t\\x1b[2J", "-1.2500\t0"]


@pytest.mark.parametrize(("total", "count"), [(0, 3), (2, 5), (7, 3), (9, 3), (1000, 7)])
def test_shards_are_equal_parts_without_gaps(total, count):
    parts = [Shard(number, count).lines(total) for number in range(1, count + 1)]
    assert [line for part in parts for line in part] == list(range(total))
    sizes = {len(part) for part in parts}
    assert max(sizes) - min(sizes) <= 1


def test_shards_joined_are_the_whole(run, write, tmp_path):
    text = "\ufeff" + "".join(f"line {number}\n" for number in range(7)) + "blank\n\nlast"
    prefixes = write("begins", "".join(f"{letter}:\n" for letter in "abcdefghij"))
    config = dict(return_beams=True, beam_size=2)  # The second hypothesis is the line's number.
    whole = run(text, Repeats(**config), prefixes=prefixes)
    assert whole.splitlines()[9] == "j:last\t9"
    for count in (1, 3, 15):
        paths = [Path(Shard(number, count).path(tmp_path / "o")) for number in range(1, count + 1)]
        for number, path in enumerate(paths, 1):
            translator, shard = Repeats(**config), Shard(number, count)
            translate_file(translator, tmp_path / "in.txt", path, {}, prefixes, shard=shard)
            assert translator.translated == len(shard.lines(10))
        assert paths == sorted(tmp_path.glob(f"o-*-of-{count:05d}"))
        assert "".join(path.read_text() for path in paths) == whole


def test_a_shard_is_continued_and_names_lines_of_the_file(write, tmp_path, capsys):
    source, output = write("in.txt", "a\nb\nc\nd\ne\nstop\n"), tmp_path / "out"
    half = dict(shard=Shard(2, 2))
    with pytest.raises(KeyboardInterrupt):
        translate_file(Repeats(), source, output, {}, **half)
    assert not output.exists()
    source.write_text("A\nB\nC\nd\ne\nf\n")
    translate_file(Repeats(), source, output, {}, **half)
    assert output.read_text() == "d\ne\nf\n"
    assert integers(capsys.readouterr().err) == [[2]], "done before"
    with refused("not_a_file", "/dev/null"):
        translate_file(Repeats(), "/dev/null", tmp_path / "other", {}, **half)
    source.write_bytes(b"a\nb\nc\nd\n\xff\nf\n")
    with refused("not_utf8", "in.txt:5"):
        translate_file(Repeats(), source, tmp_path / "other", {}, **half)
