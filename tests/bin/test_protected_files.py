"""No command writes over a file of a run, of its data or of an export, nor over an input."""

import itertools
import shutil

import pytest

FILES = ("run/vocab.model", "data/parallel_text/train-00000.tokens.npy", "link", "in")
OUTPUTS = (
    "t2t-decoder --decode_from_file=in --decode_to_file",
    "t2t-decoder --decode_from_file=in --decode_to_file=out --alignment_file",
    "t2t-decoder --decode_from_file=in --decode_to_file=out --attention_file",
    "t2t-decoder --decode_from_file=in --decode_to_file=out --decode_reference=in --results_file",
    "t2t-insights --sentences_from_file=in --page",
    "t2t-query-server --input_file=in --server=localhost:1 --servable_name=x --output_file",
)


@pytest.fixture
def folder(random_run, tmp_path, monkeypatch):
    """The working directory: a copy of a run and its data, a text, and a link into the run."""
    for name in ("run", "data"):
        shutil.copytree(random_run.parent / name, tmp_path / name)
    record = tmp_path / "run" / "run.json"
    record.write_text(record.read_text().replace(str(random_run.parent), str(tmp_path)))
    (tmp_path / "link").symlink_to(record)
    for name in ("in", "model.ckpt"):
        (tmp_path / name).write_text("A man\n")
    (tmp_path / "run" / "export" / "7").mkdir(parents=True)
    (tmp_path / "run" / "export" / "7" / "saved_model.pb").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("command", "target"),
    [
        *itertools.product(OUTPUTS, FILES),
        # A text that is called as a checkpoint.
        ("t2t-translate-all --source=model.ckpt --translations_dir", "run"),
        ("t2t-exporter --export_dir", "run/export/7"),
    ],
)
def test_nothing_is_replaced(folder, refused, command, target):
    before = contents(folder)
    program, *flags = f"{command}={target}".split()
    assert "Cannot write to " in refused(program, "--output_dir=run", *flags)
    assert contents(folder) == before
