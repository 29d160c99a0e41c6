"""Text of tensorflow-datasets: looked for before it is asked, since without a network it hangs."""

import dataclasses
import hashlib
import sys
import types

import pytest
import small_wmt
from refusals import refused

from t2t_keras.data.dataset import open_generated
from t2t_keras.data.generate import generate
from t2t_keras.data.problem import make_problem
from t2t_keras.text.sources import (
    PreparedText,
    dataset_directory,
    default_data_dir,
    manual_directory,
    plain_text,
    prepared_lines,
)

ARCHIVES = (
    "training-parallel-europarl-v7.tgz",
    "training-parallel-commoncrawl.tgz",
    "training-parallel-nc-v9.tgz",
    "dev.tgz",
)
TEXTS = {
    split: tuple(small_wmt.lines(code, *text) for code in ("en", "de"))
    for split, text in {"dev": ("newstest2013", 15), "test": ("full", 14)}.items()
}
PREPARED = "wmt14_translate/de-en/1.0.0/dataset_info.json"


@pytest.fixture
def data_dir(tmp_path, monkeypatch):
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path / "tfds"))
    return tmp_path / "tfds"


def touch(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()


def test_where_the_text_comes_from(data_dir, tmp_path):
    def decided(name="translate_ende"):
        return make_problem(name).resolved(tmp_path).text_source

    for name in ARCHIVES:
        # Before all of them are there tensorflow-datasets would try to download the rest.
        assert decided() == "archives"
        touch(manual_directory(data_dir) / name)
    assert (decided(), decided("translate_enfr")) == ("tfds", "archives")
    (manual_directory(data_dir) / ARCHIVES[0]).unlink()
    touch(data_dir / PREPARED)
    assert decided() == "tfds"
    (tmp_path / ARCHIVES[1]).touch()
    assert decided() == "archives"
    asked = make_problem("translate_ende", "text_source=tfds").resolved(tmp_path)
    assert asked.text_source == "tfds"


def test_the_newest_version_is_that_of_the_largest_numbers(data_dir):
    text = PreparedText("wmt14_translate/de-en", "train", ("en", "de"), data_dir)
    assert text.prepared() is None
    for version in ("1.9.0", "1.10.0", "1.2.0"):
        touch(data_dir / text.dataset / version / "dataset_info.json")
    (data_dir / text.dataset / "2.0.0").mkdir()  # It is still being prepared.
    assert text.prepared().name == "1.10.0"


def test_without_a_setting_it_is_in_the_home_folder(monkeypatch):
    monkeypatch.delenv("TFDS_DATA_DIR", raising=False)
    monkeypatch.setenv("HOME", "/home/a")
    assert str(default_data_dir()) == "/home/a/tensorflow_datasets"


def test_without_tensorflow_datasets(data_dir, tmp_path, monkeypatch):
    touch(data_dir / PREPARED)
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", None)
    with refused("missing_package", "pip install 't2t-keras[tfds]'"):
        generate(make_problem("translate_ende"), tmp_path, tmp_path)


def test_nothing_is_downloaded(data_dir, tmp_path):
    problem = make_problem("translate_ende", "text_source=tfds")
    touch(manual_directory(data_dir) / ARCHIVES[0])
    with refused("missing_source_files", "wmt14_translate/de-en ") as error:
        generate(problem, tmp_path, tmp_path)
    assert [line.split()[0] for line in str(error.value).splitlines()[1:]] == list(ARCHIVES[1:])


def test_lines_are_lines_and_what_cannot_be_prepared_is_refused(data_dir, monkeypatch):
    examples = [{"de": b"eins\nzwei ", "en": b"one &amp; two"}]
    split = types.SimpleNamespace(as_numpy_iterator=lambda: iter(examples))
    builder = types.SimpleNamespace(as_dataset=lambda split, shuffle_files: splits[split])
    module, splits = types.SimpleNamespace(builder=lambda name, data_dir: builder), {"train": split}
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", module)
    text = PreparedText("some/de-en", "train", ("de", "en"), data_dir)
    assert list(prepared_lines(text)) == [(b"eins zwei ", b"one &amp; two")]
    text = dataclasses.replace(text, has_entities=True)
    assert list(prepared_lines(text)) == [(b"eins zwei", b"one & two")]
    with refused("missing_source_files", "some/de-en ", data_dir):
        dataset_directory(text)


@pytest.mark.filterwarnings("ignore")  # Those of tensorflow-datasets and what it imports.
def test_archives_put_there_by_hand(data_dir, tmp_path, monkeypatch, capsys):
    tfds = pytest.importorskip("tensorflow_datasets")
    manual = manual_directory(data_dir)
    manual.parent.mkdir(parents=True)
    small_wmt.write_archives(manual)
    builder = type(tfds.builder("wmt14_translate/de-en", data_dir=data_dir))
    # It knows the checksums of the official archives; these are others.
    infos = {}
    for url, info in builder.url_infos.items():
        if (manual / info.filename).exists():
            content = (manual / info.filename).read_bytes()
            infos[url] = dataclasses.replace(
                info, size=len(content), checksum=hashlib.sha256(content).hexdigest()
            )
    monkeypatch.setattr(builder, "url_infos", infos)
    problem = make_problem("translate_ende", "vocab_size=340")
    generate(problem, tmp_path, tmp_path)
    generated = open_generated(problem, tmp_path)
    assert generated.problem.text_source == "tfds"
    for split, text in TEXTS.items():
        assert generated.text(split) == text
    assert len(generated.store("train")) == 120 + 60 + 40

    # Without the archive, what tensorflow-datasets has made of it is taken.
    (manual / "dev.tgz").unlink()
    capsys.readouterr()
    splits = problem.files(tmp_path)
    for split, text in TEXTS.items():
        (paths,) = plain_text(splits[split], tmp_path)
        for path, lines in zip(paths, text, strict=True):
            assert sorted(path.read_text().splitlines()) == sorted(lines)
        assert "wmt14_translate/de-en" in capsys.readouterr().out
