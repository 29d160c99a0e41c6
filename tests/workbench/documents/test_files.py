"""Several files and folders at once."""

import importlib
import re
import types

import pytest
from refusals import refused

from t2t_keras.errors import report_missing_package
from t2t_keras.io import terminal
from t2t_keras.workbench.documents.translating import plan_files, translate_files


@pytest.fixture
def folder(tmp_path):
    """A folder with documents, another file, and two files that cannot be read."""
    for name, content in (
        ("in/a.txt", "One."),
        ("in/deep/b.html", "<p lang=en>Two.</p>"),
        ("in/c.POT", 'msgid "Three"\nmsgstr ""\n'),
        ("in/d.png", "x"),
        ("in/bad.xml", "<a>"),
        ("in/z.xml", "<a>"),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    return tmp_path


@pytest.fixture
def translator(translator):
    problem = types.SimpleNamespace(
        name="some", is_plain_text=True, source_language="en", target_language="de"
    )
    problem.languages = lambda: (problem.source_language, problem.target_language)
    translator.problem = problem
    return translator


def test_a_folder_becomes_a_folder(folder, translator, capsys):
    plan = plan_files([folder / "in", folder / "out"])
    assert [path.name for path, _ in plan.files] == ["a.txt", "bad.xml", "c.POT", "b.html", "z.xml"]
    assert translate_files(plan, translator) == 2
    actual = {
        str(path.relative_to(folder / "out")): path.read_text()
        for path in (folder / "out").rglob("*")
        if path.is_file()
    }
    assert actual.keys() == {"a.txt", "deep/b.html", "c.po"}
    assert actual["deep/b.html"] == "<p lang=de>TWO.</p>"
    printed = capsys.readouterr()
    *translated, left_out = printed.out.splitlines()
    counts = dict(line.removeprefix(f"{folder}/out/").split()[:2] for line in translated)
    assert counts.items() >= {"a.txt:": "1", "deep/b.html:": "1"}.items()
    assert left_out.startswith("1 ")
    assert "bad.xml:1: " in printed.err


def test_one_file_becomes_one_file_or_goes_into_a_folder(folder, translator):
    translate_files(plan_files([folder / "in/a.txt", folder / "new.txt"]), translator)
    assert (folder / "new.txt").read_text() == "ONE."
    assert plan_files([folder / "in/a.txt", folder]).files == [
        (folder / "in/a.txt", folder / "a.txt")
    ]


def test_progress_counts_the_texts_of_a_file(folder, translator, capsys, monkeypatch):
    monkeypatch.setattr(terminal, "_SECONDS_BETWEEN_LINES", 0)
    (folder / "a.html").write_text("<p>One.<p>One <b>dog</b>.")
    translate_files(plan_files([folder / "a.html", folder / "b.html"]), translator)
    lines = capsys.readouterr().err.splitlines()
    assert [re.findall(r"\d+", line)[:2] for line in lines] == [["1", "2"], ["2", "2"]]


def test_a_memory_is_read_for_the_languages_of_the_problem(folder, translator):
    (folder / "m.po").write_text('msgid "One."\nmsgstr "Eins."\n')
    plan = plan_files([folder / "in/a.txt", folder / "new.txt"])
    translate_files(plan, translator, memory=folder / "m.po")
    assert (folder / "new.txt").read_text() == "Eins."


def test_several_files_become_files_of_a_folder(folder, translator):
    plan = plan_files(
        [folder / "in/a.txt", folder / "in/deep", folder / "in/c.POT", folder / "new"]
    )
    assert plan.files == [
        (folder / "in/a.txt", folder / "new/a.txt"),
        (folder / "in/deep/b.html", folder / "new/b.html"),
        (folder / "in/c.POT", folder / "new/c.po"),
    ]
    assert plan.num_skipped == 0
    translate_files(plan, translator)
    assert (folder / "new/b.html").read_text() == "<p lang=de>TWO.</p>"


def test_options_and_languages_reach_each_document(folder, translator):
    (folder / "in/c.po").write_text('msgid "Three"\nmsgstr "Drei"\n')
    (folder / "m.tmx").write_text(
        '<tmx><tu><tuv xml:lang="en"><seg>One.</seg></tuv><tuv xml:lang="de-AT"><seg>Eins.</seg>'
        '</tuv></tu><tu><tuv xml:lang="en"><seg>One.</seg></tuv><tuv xml:lang="fr"><seg>Un.</seg>'
        "</tuv></tu></tmx>"
    )
    plan = plan_files([folder / "in/c.po", folder / "new.po"])
    for everything, target in ((False, "Drei"), (True, "THREE")):
        translate_files(plan, translator, everything=everything, final=True)
        assert f'msgid "Three"\nmsgstr "{target}"' in (folder / "new.po").read_text()
    plan = plan_files([folder / "in/a.txt", folder / "new.txt"])
    for trained, languages in (("de", ("", "")), ("", ("en", "de"))):
        translator.problem.target_language = trained
        translate_files(plan, translator, languages, folder / "m.tmx")
        assert (folder / "new.txt").read_text() == "Eins."


def test_the_only_file_that_cannot_be_translated_is_an_error(folder, translator):
    plan = plan_files([folder / "in/bad.xml", folder / "new.xml"])
    with refused("malformed_xml", "bad.xml:1"):
        translate_files(plan, translator)
    assert not (folder / "new.xml").exists()


def test_what_is_read_besides_is_not_replaced(folder):
    (folder / "m.po").write_text("")
    assert plan_files([folder / "in/a.txt", folder / "m.po"], ["", folder / "other.po"]).files
    with refused("output_is_input", "m.po"):
        plan_files([folder / "in/a.txt", folder / "m.po"], ["", folder / "m.po"])


def test_a_package_that_is_missing_is_named():
    with (
        refused("missing_package", "no_such_package", "'.[documents]'"),
        report_missing_package("x", "documents"),
    ):
        importlib.import_module("no_such_package.part")
    with pytest.raises(ModuleNotFoundError), report_missing_package("x", "documents"):
        importlib.import_module("t2t_keras.no_such_module")


@pytest.mark.parametrize(
    ("paths", "code", "named"),
    [
        (["in/a.txt"], "missing_argument", "1"),
        (["in/a.txt", "in/c.POT/new.txt"], "not_written", "c.POT"),
        ([], "missing_argument", "0"),
        (["in/a.txt", "in/a.txt"], "output_is_input", "a.txt"),
        (["in/a.txt", "in/deep/../a.txt", "out"], "output_twice", "a.txt"),
        (["in", "in"], "output_is_input", "in"),
        (["in/d.png", "out"], "unknown_extension", "'.png'"),
        (["in/none.txt", "out"], "not_read", "none.txt"),
        (["empty", "out"], "no_documents", ".docx"),
    ],
)
def test_wrong_plans_are_refused(folder, paths, code, named):
    (folder / "empty").mkdir()
    with refused(code, named):
        plan_files([folder / path for path in paths])


def test_models_of_symbols_are_refused(folder, translator):
    translator.problem.is_plain_text = False
    with refused("not_supported", "some"):
        translate_files(plan_files([folder / "in/a.txt", folder / "b.txt"]), translator)
