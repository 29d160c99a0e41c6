"""No command writes over a file of a run, of its data or of an export, nor over an input."""

import shutil

import pytest

# What each command is given, with the flag to try last.
COMMANDS = {
    "t2t-decoder --decode_to_file": ["--decode_from_file=IN"],
    "t2t-decoder --alignment_file": ["--decode_from_file=IN", "--decode_to_file=OUT"],
    "t2t-decoder --attention_file": ["--decode_from_file=IN", "--decode_to_file=OUT"],
    "t2t-decoder --results_file": [
        "--decode_from_file=IN", "--decode_to_file=OUT", "--decode_reference=IN",
    ],
    "t2t-eval --results_file": ["--noeval_bleu", "--worker_gpu=0"],
    "t2t-insights --page": ["--sentences_from_file=IN"],
    "t2t-query-server --output_file": [
        "--input_file=IN", "--server=localhost:1", "--servable_name=x",
    ],
}  # fmt: skip
PLACES = {
    "RUN": "run",
    "DATA": "data/parallel_text",
    "LINK": "link",
    "IN": "in.txt",
    "OUT": "out.txt",
}


@pytest.fixture
def folder(random_run, tmp_path):
    """A copy of a run, with its data beside it."""
    for name in ("run", "data"):
        shutil.copytree(random_run.parent / name, tmp_path / name)
    record = tmp_path / "run" / "run.json"
    record.write_text(record.read_text().replace(str(random_run.parent), str(tmp_path)))
    (tmp_path / "in.txt").write_text("A man\n")
    (tmp_path / "link").symlink_to(record)
    return tmp_path


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("command", "target"),
    [
        (command, target)
        for command in COMMANDS
        for target in ("RUN/vocab.model", "DATA/train-00000.tokens.npy", "LINK", "IN")
        # It reads no text but the data's.
        if (command, target) != ("t2t-eval --results_file", "IN")
    ],
)
def test_nothing_is_replaced(folder, refused, command, target):
    program, flag = command.split()
    flags = [*COMMANDS[command], f"{flag}={target}", "--output_dir=RUN"]
    for name, place in PLACES.items():
        flags = [each.replace(f"={name}", f"={folder / place}") for each in flags]
    before = contents(folder)
    assert f"Cannot write to {folder}/" in refused(program, *flags)
    assert contents(folder) == before


def test_translations_of_a_text_that_is_called_as_a_checkpoint(folder, refused):
    source, run = folder / "model.ckpt", folder / "run"
    source.write_text("A man\n")
    before = contents(run)
    flags = f"--output_dir={run}", f"--source={source}", f"--translations_dir={run}"
    assert "belongs to a run" in refused("t2t-translate-all", *flags)
    assert contents(run) == before


def test_nothing_is_added_to_an_export(folder, refused):
    export = folder / "run" / "export" / "7"
    export.mkdir(parents=True)
    (export / "saved_model.pb").touch()
    flags = f"--output_dir={folder / 'run'}", f"--export_dir={export}"
    assert "belongs to an export" in refused("t2t-exporter", *flags)
