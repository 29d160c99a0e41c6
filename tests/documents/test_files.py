"""Several files and folders at once."""

import types

import pytest

from t2t_keras.documents.files import planned, translate_files
from t2t_keras.errors import UserError


@pytest.fixture
def folder(tmp_path):
    """A folder with documents, another file, and a file that cannot be read."""
    for name, content in (
        ("in/a.txt", "One."),
        ("in/deep/b.html", "<p>Two.</p>"),
        ("in/c.POT", 'msgid "Three"\nmsgstr ""\n'),
        ("in/d.png", "x"),
        ("in/bad.xml", "<a>"),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    return tmp_path


@pytest.fixture
def translator(translator):
    translator.problem = types.SimpleNamespace(
        name="some", is_plain_text=True, source_language="en", target_language="de"
    )
    return translator


def test_a_folder_becomes_a_folder(folder, translator, capsys):
    plan = planned([folder / "in", folder / "out"])
    assert translate_files(plan, translator) == 1
    found = {
        str(path.relative_to(folder / "out")): path.read_text()
        for path in (folder / "out").rglob("*")
        if path.is_file()
    }
    assert found.keys() == {"a.txt", "deep/b.html", "c.po"}
    assert found["deep/b.html"] == "<p>TWO.</p>"
    said = capsys.readouterr()
    assert f"{folder}/out/a.txt: 1 translated\n" in said.out
    assert "1 other files of the folders were left out.\n" in said.out
    assert "Not translated:" in said.err
    assert "bad.xml:1: not well-formed XML" in said.err


def test_one_file_becomes_one_file_or_goes_into_a_folder(folder, translator):
    translate_files(planned([folder / "in/a.txt", folder / "new.txt"]), translator)
    assert (folder / "new.txt").read_text() == "ONE."
    assert planned([folder / "in/a.txt", folder]).files == [(folder / "in/a.txt", folder / "a.txt")]


def test_a_memory_is_read_for_the_languages_of_the_problem(folder, translator):
    (folder / "m.po").write_text('msgid "One."\nmsgstr "Eins."\n')
    plan = planned([folder / "in/a.txt", folder / "new.txt"])
    translate_files(plan, translator, memory=folder / "m.po")
    assert (folder / "new.txt").read_text() == "Eins."


@pytest.mark.parametrize(
    ("paths", "said"),
    [
        ([], "Expected files to translate and where to write them"),
        (["in/a.txt", "in/a.txt"], "it is also an input"),
        (["in/a.txt", "in/deep/../a.txt", "out"], "it is another output"),
        (["in", "in"], "it is also an input"),
        (["in/d.png", "out"], "expected the extension of a format"),
        (["in/none.txt", "out"], "cannot be read"),
        (["empty", "out"], "Expected files with one of"),
    ],
)
def test_wrong_plans_are_refused(folder, paths, said):
    (folder / "empty").mkdir()
    with pytest.raises(UserError, match=said):
        planned([folder / path for path in paths])


def test_models_of_symbols_are_refused(folder, translator):
    translator.problem.is_plain_text = False
    with pytest.raises(UserError, match="some is of symbols"):
        translate_files(planned([folder / "in/a.txt", folder / "b.txt"]), translator)
