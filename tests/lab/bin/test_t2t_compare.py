import json
import os
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from t2t_keras.bin import t2t_decoder, t2t_exporter, t2t_translate_all
from t2t_keras.data.problem import make_problem
from t2t_keras.decoding.translator import Translator
from t2t_keras.io.files import sha256_of
from t2t_keras.lab.bin import t2t_compare
from t2t_keras.training.checkpoint_files import identity, path_at, read, write

REFERENCES = ["The cat is on the mat.", "It rains again.", "A dog."]
FILES = "--reference=ref --translations=one,two"
OUTPUTS = {"one": ["The cat is on a mat.", "It rains.", "A dog."], "two": ["The cat.", "It", "A"]}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name, lines in {"ref": REFERENCES, "short": ["A"], "empty": [], **OUTPUTS}.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    (tmp_path / "bad").write_bytes(b"A\n\xff\nB\n")
    (tmp_path / "blank").write_text("\n\n\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def compared(capsys, *flags):
    """What the command says, and the JSON that it writes."""
    t2t_compare.run(["t2t-compare", *flags, "--format=json", "--samples=20"])
    return json.loads(capsys.readouterr().out)


def test_files_as_json(folder, capsys):
    (folder / "training").write_text("the cat\n")
    files = ("--reference=ref", "--translations=one,two", "--training_text=training")
    actual = compared(capsys, *files, "--names=a,b", "--metrics=bleu,chrf++", "--seed=3")
    assert (actual["baseline"], actual["sentences"]) == ("a", 3)
    assert actual["significance"] == {"test": "bootstrap", "samples": 20, "seed": 3}
    first, second = (system["metrics"] for system in actual["systems"])
    assert [*first] == [*second] == ["bleu", "chrf++"]
    assert all(score["p_value"] is None for score in first.values())
    assert all(0 < score["p_value"] <= 1 for score in second.values())
    assert actual["by_frequency"]["counted_in"] == "training"
    [difference] = actual["differences"]
    worst = difference["losses"][0]
    assert (worst["line"], worst["translations"], worst["source"]) == (3, ["A dog.", "A"], None)
    comparison = compared(capsys, *files, "--source=two", "--tokenize=char", "--metrics=bleu")
    assert comparison["tokenize"] == "char"
    assert "|tok:char|" in comparison["systems"][0]["metrics"]["bleu"]["signature"]
    assert [comparison[side] for side in ("reference", "source")] == ["ref", "two"]
    assert comparison["differences"][0]["losses"][0]["source"] == "A"


def test_names_that_are_not_utf_8_stand_in_every_format(folder, capsys):
    Path("two").rename("\udcff")
    Path("one").write_text("Ä\nß\n漢\n", "utf-8")
    for style in ("text", "html", "json"):
        files = ["--reference=ref", "--translations=one,\udcff", f"--format={style}"]
        t2t_compare.run(["t2t-compare", *files, "--samples=2", "--output=out"])
        written = (folder / "out").read_text("utf-8")
        assert [text in written for text in ("\\udcff", "ß", "漢")] == [True] * 3
    assert json.loads((folder / "out").read_text())["systems"][1]["name"] == "\udcff"


def test_text_and_html_into_files(folder, capsys):
    files = ["--reference=ref", "--translations=one,two", "--source=ref", "--samples=20"]
    files += ["--training_text=one"]
    for style in ("text", "html"):
        t2t_compare.run(["t2t-compare", *files, f"--format={style}", f"--output=out.{style}"])
    assert capsys.readouterr().out == "out.text: one, two\nout.html: one, two\n"
    report = (folder / "out.text").read_text()
    [comparison] = re.findall("^two compared with one.*$", report, re.M)
    # Of the sentences: better, equal and worse.
    assert re.findall(r"\b\d+", comparison) == ["0", "0", "3"]
    assert "  one        The cat is on a mat.\n  two        The cat.\n" in report
    assert re.search(r"^\S.* in one$", report, re.M)
    page = (folder / "out.html").read_text()
    assert page.startswith("<!doctype html>")
    assert re.search(r">\w+ in <code>one</code>\.", page)


@pytest.mark.parametrize(
    ("flags", "error"),
    [
        ("", "missing_flags --reference --translations --runs"),
        ("--translations=one,two", "missing_flags --reference"),
        ("--reference=nowhere --translations=one,two", "not_read nowhere"),
        ("--reference=ref --translations=one", "too_few one"),
        ("--reference=ref --translations=one,one", "given_twice 'one' --names"),
        ("--reference=ref --translations=one,short", "unequal_counts ref 3, one 3, short 1"),
        (f"{FILES} --source=short", "unequal_counts short 1, one 3"),
        ("--reference=ref --translations=one,empty", "no_text empty"),
        (f"{FILES} --source=empty", "no_text empty"),
        ("--reference=blank --translations=one,two", "blank blank"),
        ("--reference=ref --translations=one,bad", "not_utf8 bad:2"),
        (f"{FILES} --metrics=blue", "unknown_name 'blue' 'bleu'"),
        (f"{FILES} --tokenize=13", "unknown_name '13' '13a'"),
        (f"{FILES} --names=a", "bad_arguments 2 1 a."),
        (f"{FILES} --output=two", "output_is_input two"),
        (f"{FILES} --training_text=x", "not_read x"),
        (f"{FILES} --training_text=bad", "not_utf8 bad:2"),
        (f"{FILES} --seed=0", "bad_value --seed=0"),
        (f"{FILES} --split=test", "conflicting_settings --split --runs"),
        (f"{FILES} --comet_model=x", "missing_flags COMET --source"),
        (f"{FILES} --comet_python=x", "conflicting_settings --comet_python --comet_model"),
        ("--runs=one,two --reference=ref", "missing_flags --source"),
        ("--runs=one,two --source=ref", "missing_flags --reference"),
        (
            "--runs=one,two --reference=ref --source=ref --split=test",
            "conflicting_settings --split --source",
        ),
        (
            "--runs=one,two --reference=ref --source=ref --data_dir=x",
            "conflicting_settings --data_dir --source",
        ),
        ("--runs=one,two --reference=ref --source=/dev/stdin", "not_a_file /dev/stdin"),
        ("--runs=one,two", "no_run one"),
        ("--runs=one", "too_few one"),
    ],
)
def test_refused(folder, refused, flags, error):
    before = {path.name for path in folder.iterdir()}
    refused(error, "t2t-compare", *flags.split())
    assert {path.name for path in folder.iterdir()} == before


@pytest.fixture
def runs(random_run, tmp_path, monkeypatch):
    """Two runs of one problem; the second's newest checkpoint is an earlier one."""
    for name in ("first", "second"):
        shutil.copytree(random_run, tmp_path / name)
    for file in (tmp_path / "second").glob("model.ckpt-30.*"):
        file.unlink()
    cost = {"target_tokens": 5, "seconds": 12.5, "hardware": "2 cores"}
    newest = path_at(tmp_path / "second", 20)
    write(newest, read(newest)[0], {"cost": cost})
    monkeypatch.chdir(tmp_path)
    return "--runs=first,second"


def change(file, word, other):
    """Replaces a word of generated data by one as long, and corrects the manifest."""
    text = file.read_text()
    file.write_text(text.replace(word, other))
    assert file.read_text() != text
    manifest = json.loads((file.parent / "manifest.json").read_text())
    manifest["files"][file.name]["sha256"] = sha256_of(file)
    (file.parent / "manifest.json").write_text(json.dumps(manifest))


@pytest.fixture
def other_source(random_run, tmp_path):
    """The data, but with another source of the dev set."""
    shutil.copytree(random_run.parent / "data", tmp_path / "data")
    source = tmp_path / "data" / "parallel_text" / "dev.source.txt"
    change(source, "dog", "cat")
    return source


FAST = "--decode_hparams=beam_size=2,extra_length=3"


def test_runs_translate_what_they_have_not(runs, other_source, capsys, monkeypatch):
    beam = "--decode_hparams=beam_size=2"
    t2t_decoder.run(["t2t-decoder", "--output_dir=first", beam])
    [stored] = Path("first/decodes").glob("*.decodes")
    capsys.readouterr()
    actual = compared(capsys, runs, beam)
    first, second = actual["systems"]
    assert first["file"] == str(stored)
    assert first["training_seconds"] is None
    assert (second["training_seconds"], second["training_hardware"]) == (12.5, "2 cores")
    assert min(first["decoding_seconds"], second["decoding_seconds"]) > 0
    size = sum(file.stat().st_size for file in Path("second").glob("model.ckpt-20.*"))
    assert second["megabytes"] == size / 1e6
    assert actual["sentences"] == 3

    def translates(run, *flags):
        with monkeypatch.context() as patch:
            patch.delattr(Translator, "from_stored")
            with pytest.raises(AttributeError):
                compared(capsys, *flags)
        return capsys.readouterr().err.startswith(f"{run} ")

    # What is there is not translated again; with other settings, or of another text, it is.
    with monkeypatch.context() as patch:
        patch.delattr(Translator, "translate_stream")
        assert compared(capsys, runs, beam) == actual
        Path("first").rename("moved")
        moved = compared(capsys, "--runs=moved,second", beam)["systems"][0]["file"]
        assert moved == f"moved/decodes/{stored.name}"
        Path("moved").rename("first")
    assert translates("first", runs, FAST)
    assert translates("second", "--runs=second,first", FAST)
    assert translates("first", runs, beam, "--data_dir=data")
    # Nor is taken what is older than the checkpoint, what has another part in it, what an earlier
    # checkpoint translated, or who knows who.
    stated = stored.with_name(f"{stored.name}.json")
    before = json.loads(stated.read_text())
    for name in ("ensemble", "forbidden", "prefixes", "stages", "engine"):
        stated.write_text(json.dumps(before | {name: ["x"]}))
        assert translates("first", runs, beam), name
    stated.write_text(json.dumps({k: v for k, v in before.items() if k != "seconds"}))
    interrupted = compared(capsys, runs, beam)["systems"][0]
    assert [interrupted["decoding_seconds"], interrupted["decoding_hardware"]] == [None, ""]
    os.utime(stored, (1, 1))
    assert translates("first", runs, beam)
    t2t_decoder.run(
        ["t2t-decoder", "--output_dir=first", beam, "--checkpoint_path=first/model.ckpt-20"]
    )
    assert translates("first", runs, beam)
    output = Path(second["file"])
    output.write_text(output.read_text())
    output.with_name(f"{output.name}.json").unlink()
    assert translates("second", "--runs=second,first", beam)


def test_runs_of_translate_all(runs, other_source, capsys, monkeypatch):
    for run in ("first", "second"):
        t2t_translate_all.run(["t2t-translate-all", f"--output_dir={run}", FAST])
    capsys.readouterr()
    monkeypatch.delattr(Translator, "translate_stream")
    files = [system["file"] for system in compared(capsys, runs, FAST)["systems"]]
    assert files == [
        "first/translations/parallel_text.dev-30",
        "second/translations/parallel_text.dev-20",
    ]
    with pytest.raises(AttributeError):
        compared(capsys, runs, "--decode_hparams=beam_size=2,extra_length=4")
    os.utime(other_source, (1, 1))
    with pytest.raises(AttributeError):
        compared(capsys, runs, FAST, "--data_dir=data")
    os.utime(files[0], (1, 1))  # Older than the checkpoint: of another of that step.
    with pytest.raises(AttributeError):
        compared(capsys, runs, FAST)


def test_another_text_is_told_from_those_of_its_name(runs, tmp_path, capsys, monkeypatch):
    def translate_file(translator, source, output, *arguments, **options):
        translated.append((str(source), output.name))
        output.parent.mkdir(exist_ok=True)
        shutil.copy(source, output)

    translated, translator = [], SimpleNamespace(checkpoint_identity=None)
    monkeypatch.setattr("t2t_keras.lab.comparison.systems.translate_file", translate_file)
    monkeypatch.setattr(Translator, "from_run", lambda *arguments, **options: translator)
    # The problem says how its text is divided into words.
    monkeypatch.setattr(type(make_problem("parallel_text")), "tokenize", "char")
    for name, text in {"a": "A man", "b": "A dog", "c": "A man"}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "news").write_text(f"{text}\n")
        more = f"--source={name}/news", f"--reference={name}/news", "--translations=a/news"
        actual = compared(capsys, runs, *more)
        assert actual["tokenize"] == "char"
        assert [system["name"] for system in actual["systems"]] == ["first", "second", "news"]
    sources, outputs = zip(*translated, strict=True)
    assert sources == ("a/news", "a/news", "b/news", "b/news", "c/news", "c/news")
    assert outputs[0] == outputs[4] != outputs[2]
    assert outputs[0].startswith(f"news.{sha256_of(tmp_path / 'a' / 'news')[:8]}.")
    actual = compared(capsys, runs, "--split=test")
    assert (actual["sentences"], translated[-1][1][:19]) == (2, "parallel_text.test.")


def test_runs_of_different_sets_are_refused(runs, random_run, refused, tmp_path):
    data = tmp_path / "data"
    shutil.copytree(random_run.parent / "data", data)
    change(data / "parallel_text" / "dev.target.txt", "Hund", "Huhn")
    record = tmp_path / "second" / "run.json"
    record.write_text(record.read_text().replace(str(random_run.parent), str(tmp_path)))
    refused("other_text dev second first 2", "t2t-compare", runs)
    source = random_run.parent / "data" / "parallel_text" / "dev.source.txt"
    files = f"--source={source}", f"--reference={record}"
    refused(f"unequal_counts {source} {record}", "t2t-compare", runs, *files)
    assert not Path("first/decodes").exists()


def test_an_export_beside_its_run(runs, capsys):
    pytest.importorskip("ctranslate2", reason="needs ctranslate2")
    t2t_exporter.run(
        ["t2t-exporter", "--output_dir=second", "--format=ctranslate2", "--dtype=int8"]
    )
    record = json.loads(Path("second/ctranslate2/t2t_keras.json").read_text())
    assert record["checkpoint"] == identity("second/model.ckpt-20")
    capsys.readouterr()
    actual = compared(capsys, "--runs=second,second/ctranslate2", FAST, "--names=run,export")
    run, export = actual["systems"]
    assert export["file"].startswith(
        "second/ctranslate2/decodes/parallel_text.dev.ctranslate2.int8."
    )
    assert export["training_seconds"] == run["training_seconds"] == 12.5
    files = [file for file in Path("second/ctranslate2").iterdir() if file.is_file()]
    assert export["megabytes"] == sum(file.stat().st_size for file in files) / 1e6
    assert actual["differences"][0]["system"] == "export"
