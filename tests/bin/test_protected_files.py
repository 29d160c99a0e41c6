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
TARGETS = ("RUN/vocab.model", "RUN/model.ckpt-30.index", "DATA/train-00000.tokens.npy", "LINK")


@pytest.fixture
def run(random_run, tmp_path):
    """A copy of a run, with its data beside it."""
    for name in ("run", "data"):
        shutil.copytree(random_run.parent / name, tmp_path / name)
    record = tmp_path / "run" / "run.json"
    record.write_text(record.read_text().replace(str(random_run.parent), str(tmp_path)))
    (tmp_path / "in.txt").write_text("A man\n")
    (tmp_path / "link").symlink_to(tmp_path / "run" / "run.json")
    return tmp_path / "run"


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("target", [*TARGETS, "IN"])
@pytest.mark.parametrize("command", COMMANDS)
def test_nothing_is_replaced(run, refused, command, target):
    if "eval" in command and target == "IN":
        pytest.skip("it reads no text but the data's")
    folder = run.parent
    places = {
        "RUN": run,
        "DATA": folder / "data" / "parallel_text",
        "LINK": folder / "link",
        "IN": folder / "in.txt",
        "OUT": folder / "out.txt",
    }
    program, flag = command.split()
    flags = [*COMMANDS[command], f"{flag}={target}", "--output_dir=RUN"]
    for name, place in places.items():
        flags = [each.replace(f"={name}", f"={place}") for each in flags]
    before = contents(folder)
    assert f"Cannot write to {folder}/" in refused(program, *flags)
    assert contents(folder) == before


def test_translations_of_a_text_that_is_called_as_a_checkpoint(run, refused):
    source = run.parent / "model.ckpt"
    source.write_text("A man\n")
    before = contents(run)
    flags = f"--output_dir={run}", f"--source={source}", f"--translations_dir={run}"
    assert "belongs to a run" in refused("t2t-translate-all", *flags)
    assert contents(run) == before


def test_nothing_is_added_to_an_export(run, refused):
    export = run / "export" / "7"
    export.mkdir(parents=True)
    (export / "saved_model.pb").touch()
    flags = f"--output_dir={run}", f"--export_dir={export}"
    assert "belongs to an export" in refused("t2t-exporter", *flags)
