"""Documents by the command, with a model of random weights."""

import pytest
from lxml import etree

from t2t_keras.bin import t2t_translate_file

FAST = "--decode_hparams=beam_size=1,extra_length=2"
XLIFF = """<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en">
<file id="f"><unit id="u"><segment><source>A <pc id="1">man</pc> eats.</source></segment>
<segment><source>The dog eats %s.</source></segment></unit></file></xliff>"""


def run(*flags):
    t2t_translate_file.run(["t2t-translate-file", *map(str, flags)])


def test_a_file_is_translated(random_run, tmp_path, capsys):
    (tmp_path / "a.xlf").write_text(XLIFF)
    run(f"--output_dir={random_run}", FAST, tmp_path / "a.xlf", tmp_path / "b.xlf")
    done = "2 translated, 1 with repaired placeholders"
    assert capsys.readouterr().out == f"{tmp_path}/b.xlf: {done}\n"
    names = {"x": "urn:oasis:names:tc:xliff:document:2.0"}
    root = etree.parse(tmp_path / "b.xlf").getroot()
    first, second = root.findall(".//x:target", names)
    assert root.get("trgLang") == "de"
    assert [each.tag.rpartition("}")[2] for each in first] == ["pc"]
    assert second.text.count("%s") == 1


def test_what_is_wrong_is_said_before_the_model_is_loaded(refused, tmp_path):
    (tmp_path / "a.txt").write_text("A man.")
    said = refused("t2t-translate-file", tmp_path / "a.txt", tmp_path / "b.txt")
    assert "Please give --output_dir" in said
    flags = "--output_dir=none", tmp_path / "a.txt", tmp_path / "a.txt"
    assert "it is also an input" in refused("t2t-translate-file", *flags)
    for least, is_share in (("75", False), ("1.01", False), ("1", True), ("0", True)):
        flags = f"--least={least}", tmp_path / "a.txt", tmp_path / "b.txt"
        said = refused("t2t-translate-file", "--output_dir=none", *flags)
        assert ("--least is a share from 0 to 1" in said) != is_share


@pytest.mark.parametrize("flag", ["--target_language=fr", "--source_language=de"])
def test_a_language_that_the_model_has_not_is_refused(random_run, refused, tmp_path, flag):
    (tmp_path / "a.txt").write_text("A man.")
    files = tmp_path / "a.txt", tmp_path / "b.txt"
    said = refused("t2t-translate-file", f"--output_dir={random_run}", flag, *files)
    assert flag in said
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
