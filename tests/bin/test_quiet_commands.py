"""Commands as processes: what they write to standard error."""

import subprocess
import sys

import pytest

SMALL = "d_model=8,d_ff=8,num_heads=1,num_layers=1,batch_tokens=400"


def run(command, *flags):
    return subprocess.run(
        [sys.executable, "-m", f"t2t_keras.bin.{command}", *map(str, flags)],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """Each command's process, one after the other on one run."""
    folder = tmp_path_factory.mktemp("quiet")
    model, mean = f"--output_dir={folder / 'model'}", f"--output_dir={folder / 'mean'}"
    problem = "--problem=algorithmic_identity_binary40"
    config = "--problem_config=train_size=50,dev_size=2,dev_length=5,train_length=5"
    data = f"--data_dir={folder / 'data'}"
    hparams = ["--hparams_set=transformer_tiny", f"--hparams={SMALL}", "--train_steps=2"]
    settings = "--decode_hparams=beam_size=1,extra_length=1"
    return {
        "t2t_trainer": run(
            "t2t_trainer", problem, config, data, model, *hparams, "--generate_data"
        ),
        "t2t_avg_all": run("t2t_avg_all", f"--model_dir={folder / 'model'}", mean, "--n=1"),
        "t2t_decoder": run("t2t_decoder", mean, settings),
        "t2t_exporter": run("t2t_exporter", mean, settings, f"--export_dir={folder / 'export'}"),
    }


@pytest.mark.parametrize("command", ["t2t_trainer", "t2t_avg_all", "t2t_decoder", "t2t_exporter"])
def test_standard_error_is_empty(done, command):
    assert done[command].returncode == 0, done[command].stderr
    assert done[command].stderr == ""


def test_what_was_held_back_is_shown_where_tensorflow_cannot_be_imported(tmp_path):
    (tmp_path / "tensorflow.py").write_text(
        "import os\nos.write(2, b'held')\nraise OSError('lost')"
    )
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from t2t_keras.environment import quieten_tensorflow\n"
        "quieten_tensorflow()\nimport tensorflow"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert process.stderr.startswith("held")
    assert "OSError: lost" in process.stderr
