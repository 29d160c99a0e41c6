"""What must not be written over, by whatever path."""

import os
import re

import pytest
from refusals import refused

from t2t_keras.io.files import check_outputs, is_stream, not_a_run


@pytest.fixture
def run(tmp_path):
    """A run with an export, which is the working directory's neighbour."""
    run = tmp_path / "run"
    names = (
        "run.json",
        "vocab.model",
        "vocab.source.model",
        "news.de",
        "best/model.ckpt-5.safetensors",
    )
    for name in (*names, "eval_dev/results.jsonl", "export/7/saved_model.pb"):
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_text(name)
    return run


@pytest.mark.parametrize(
    "name",
    [
        "run.json",
        "vocab.model",
        "VOCAB.model",
        "model.ckpt-11.safetensors",
        "best/model.ckpt-5.safetensors",
        "best/../evaluations.json",
        "eval_dev/results.jsonl",
        "export/7/new",
        "onnx/model.onnx",
        "keras_hub/source_tokenizer.json",
        "keras_hub/assets/tokenizer/vocabulary.spm",
        "events.out.tfevents.2",
        "train/scalars.jsonl",
        "evaluations.json",
        "microbatch.json",
        "has_saved",
        "results.jsonl",
        ".lock",
    ],
)
def test_files_of_a_run_and_its_exports(run, name):
    with refused("output_belongs_to_other", run / name):
        check_outputs([], [run / name])


@pytest.mark.parametrize("name", ["manifest.json", "vocab.model", "dev.source.txt", "train-0.npy"])
@pytest.mark.parametrize("marker", ["manifest.json", "unfinished.json"])
def test_files_of_generated_data(tmp_path, marker, name):
    (tmp_path / marker).write_text('{"splits": {}}')
    with refused("output_belongs_to_other", tmp_path / name):
        check_outputs([], [tmp_path / name])
    check_outputs([], [tmp_path / f"{name}.decodes"])


@pytest.mark.parametrize("marker", ["t2t_keras.json", "task.json", "model.onnx", "model.tflite"])
def test_models_for_other_programs(tmp_path, marker):
    (tmp_path / marker).touch()
    with refused("output_belongs_to_other", "model.weights.h5"):
        check_outputs([], [tmp_path / "model.weights.h5"])


@pytest.mark.parametrize("name", ["out.de.gz", "out.GZ", "out.bz2", "out.xz", "out.zst"])
def test_nothing_is_packed(tmp_path, name):
    for writes, appends in (([tmp_path / name], []), ([], [tmp_path / name])):
        with refused("packed_output", tmp_path / name):
            check_outputs([], writes, appends)
    check_outputs([tmp_path / name], [tmp_path / "gz", tmp_path / "out.gz.de"])


@pytest.mark.parametrize("suffix", ["", ".safetensors"])
def test_a_checkpoint_is_named_as_a_flag_takes_it(run, suffix):
    said = not_a_run(run / "best" / f"model.ckpt-5{suffix}")
    assert re.findall(r"\S+/model\S+", said)[1:] == [f"{run}/best/model.ckpt-5{suffix}"]
    assert "--checkpoint_path" in said


def test_a_folder_of_many_runs_names_five(tmp_path):
    for name in "abcdef":
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").touch()
    assert not_a_run(tmp_path).endswith(f"{tmp_path / 'd'}, {tmp_path / 'e'}.")


def test_a_manifest_that_is_not_ours(tmp_path):
    (tmp_path / "manifest.json").write_text('{"name": "a web page"}')
    check_outputs([], [tmp_path / "checkpoint"])


@pytest.mark.parametrize("link", [os.symlink, os.link])
@pytest.mark.parametrize("place", ["link", "run/link"])
def test_links_to_files_of_a_run_that_is_read(run, tmp_path, link, place):
    link(run / "vocab.model", tmp_path / place)
    owned = link == os.symlink or place.startswith("run/")
    with refused("output_belongs_to_other" if owned else "output_is_input", tmp_path / place):
        check_outputs([run], [tmp_path / place])
    if link == os.symlink:
        with refused("output_belongs_to_other", tmp_path / place):
            check_outputs([], [tmp_path / place])


@pytest.mark.parametrize("name", ["in", "link", "hard", "folder/../in"])
def test_inputs(tmp_path, name):
    (tmp_path / "in").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("in")
    (tmp_path / "hard").hardlink_to(tmp_path / "in")
    for writes, appends in (([tmp_path / name], []), ([], [tmp_path / name])):
        with refused("output_is_input", tmp_path / name, f"({tmp_path / 'in'})"):
            check_outputs([tmp_path / "in"], writes, appends)


def test_two_outputs_and_a_folder(tmp_path):
    with refused("output_twice", tmp_path / "b" / ".." / "a"):
        check_outputs([], [tmp_path / "a", tmp_path / "b" / ".." / "a"])
    for writes, appends in (([tmp_path], []), ([], [tmp_path])):
        with refused("is_a_folder", tmp_path):
            check_outputs([], writes, appends)


def test_what_may_be_written_in_a_run(run):
    writes = [run / "news.de", run / "news.en-10", run / "translations" / "new.de"]
    check_outputs([run], writes, appends=[run / "eval_dev" / "results.jsonl"])
    with refused("output_belongs_to_other", run / "vocab.model"):
        check_outputs([run], [], appends=[run / "vocab.model"])


def test_streams_are_left_out():
    check_outputs(["-"], ["-", "/dev/null", "/dev/null"])
    assert [is_stream(path) for path in ("-", "/dev/null", "new")] == [True, True, False]
