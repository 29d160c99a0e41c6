"""Documents by the command, with models of random weights and the one in the repository."""

import re

import polib
import pytest
from lxml import etree

from t2t_keras.workbench.bin import t2t_translate_file

PO = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\n'
PO += 'msgid "I have %d books."\nmsgstr ""\n'
FAST = "--decode_hparams=beam_size=1,extra_length=2"
XLIFF = """<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en">
<file id="f"><unit id="u"><segment><source>A <pc id="1">man</pc> eats.</source></segment>
<segment><source>The dog eats %s.</source></segment></unit></file></xliff>"""


def run(*flags):
    t2t_translate_file.run(["t2t-translate-file", *map(str, flags)])


def test_a_file_is_translated(random_run, tmp_path, capsys):
    (tmp_path / "a.xlf").write_text(XLIFF)
    run(f"--output_dir={random_run}", FAST, tmp_path / "a.xlf", tmp_path / "b.xlf")
    path, _, counts = capsys.readouterr().out.partition(": ")
    assert path == f"{tmp_path}/b.xlf"
    assert re.findall(r"\d+", counts) == ["2", "1"], "translated, and with repaired placeholders"
    names = {"x": "urn:oasis:names:tc:xliff:document:2.0"}
    root = etree.parse(tmp_path / "b.xlf").getroot()
    first, second = root.findall(".//x:target", names)
    assert root.get("trgLang") == "de"
    assert [element.tag.rpartition("}")[2] for element in first] == ["pc"]
    assert second.text.count("%s") == 1


def test_the_model_in_the_repository_translates_documents(root, tmp_path, capsys):
    pytest.importorskip("ctranslate2")
    page = "# The red house\n\nThe dog **sleeps**.\n\n- [The boy](boy.html) reads a book.\n"
    (tmp_path / "page.md").write_text(page)
    (tmp_path / "a.po").write_text(PO)
    model = root / "examples" / "models" / "en-de"
    files = tmp_path / "page.md", tmp_path / "a.po"
    run(f"--output_dir={model}", "--engine=ctranslate2", *files, tmp_path / "out")
    assert re.findall(r": (\d+) translated", capsys.readouterr().out) == ["3", "1"]
    heading, sentence, item = (tmp_path / "out" / "page.md").read_text().split("\n\n")
    assert re.fullmatch(r"# Das rote Haus\.?", heading)
    assert sentence == "Der Hund **schläft**."
    assert item == "- [Der Junge](boy.html) liest ein Buch.\n"
    [entry] = polib.pofile(str(tmp_path / "out" / "a.po"))
    assert entry.fuzzy
    assert re.fullmatch(r"Ich habe .*Bücher.*", entry.msgstr)
    assert entry.msgstr.count("%d") == 1


def test_what_is_wrong_is_said_before_the_model_is_loaded(refused, tmp_path):
    (tmp_path / "a.txt").write_text("A man.")
    files = tmp_path / "a.txt", tmp_path / "b.txt"
    refused("missing_flags --output_dir", "t2t-translate-file", *files)
    same = files[0], files[0]
    refused(f"output_is_input {files[0]}", "t2t-translate-file", "--output_dir=none", *same)
    for least, error in {
        "75": "bad_value --least 75",
        "1.01": "bad_value --least 1.01",
        "1": "no_run none",
        "0": "no_run none",
    }.items():
        flags = "--output_dir=none", f"--least={least}"
        refused(error, "t2t-translate-file", *flags, *files)


@pytest.mark.parametrize("flag", ["--target_language=fr", "--source_language=de"])
def test_a_language_that_the_model_has_not_is_refused(random_run, refused, tmp_path, flag):
    (tmp_path / "a.txt").write_text("A man.")
    files = tmp_path / "a.txt", tmp_path / "b.txt"
    flags = f"--output_dir={random_run}", flag
    refused(f"other_language {flag}", "t2t-translate-file", *flags, *files)
    assert not (tmp_path / "b.txt").exists()


def test_a_region_is_another_name_of_the_language(random_run, tmp_path):
    (tmp_path / "a.xlf").write_text(XLIFF)
    languages = "--target_language=de-AT", "--source_language=en_GB"
    run(f"--output_dir={random_run}", FAST, *languages, tmp_path / "a.xlf", tmp_path / "b.xlf")
    assert etree.parse(tmp_path / "b.xlf").getroot().get("trgLang") == "de-AT"


def test_some_files_that_cannot_be_translated_make_the_status_2(random_run, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.txt").write_text("A man.")
    (tmp_path / "in/b.xml").write_text("<a>")
    with pytest.raises(SystemExit) as stop:
        run(f"--output_dir={random_run}", FAST, tmp_path / "in", tmp_path / "out")
    assert stop.value.code == 2
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["a.txt"]


def test_how_sure_the_model_is_stands_in_xliff(random_run, tmp_path):
    (tmp_path / "a.xlf").write_text(XLIFF)
    flags = f"--output_dir={random_run}", FAST, "--confidence"
    run(*flags, tmp_path / "a.xlf", tmp_path / "b.xlf")
    [match] = etree.parse(tmp_path / "b.xlf").iter("{urn:oasis:names:tc:xliff:matches:2.0}match")
    assert match.get("type") == "mt"
    assert 0 < float(match.get("matchQuality")) < 100
