"""Commands write nothing to standard error, nor does TensorFlow, which they import quickly."""

import json
import subprocess
import sys

import pytest

TRAIN = (
    "--problem=algorithmic_identity_binary40 --generate_data --train_steps=2 "
    "--problem_config=train_size=50,dev_size=2,dev_length=5,train_length=5 "
    "--hparams_set=transformer_tiny "
    "--hparams=d_model=8,d_ff=8,num_heads=1,num_layers=1,batch_tokens=400"
)
FAST = "--decode_hparams=beam_size=1,extra_length=1"
# In one process, since importing TensorFlow takes longest; none does so before it is made quiet.
PROGRAM = """
import gc, importlib, json, sys
commands = json.loads(sys.argv[1])
modules = [importlib.import_module(f"t2t_keras.bin.{command}") for command, *_ in commands]
assert "tensorflow" not in sys.modules
for module, command in zip(modules, commands):
    module.run(command)
assert gc.isenabled() and gc.get_freeze_count() > 100_000
for name in ("jax", "matplotlib"):  # TensorFlow and Keras import them where they find them.
    assert name not in sys.modules
"""


@pytest.mark.slow
def test_standard_error_is_empty(tmp_path):
    (tmp_path / "in").write_text("0 1\n")
    run, mean = f"--output_dir={tmp_path / 'run'}", f"--output_dir={tmp_path / 'mean'}"
    text = f"--decode_from_file={tmp_path / 'in'}", f"--decode_to_file={tmp_path / 'out'}"
    commands = (
        ("t2t_trainer", run, *TRAIN.split(), f"--data_dir={tmp_path / 'data'}"),
        ("t2t_avg_all", f"--model_dir={tmp_path / 'run'}", mean, "--n=1"),
        ("t2t_decoder", mean, *text, FAST),
        ("t2t_exporter", mean, FAST),
    )
    call = [sys.executable, "-c", PROGRAM, json.dumps(commands)]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert list((tmp_path / "mean").glob("export/*"))


def test_what_was_held_back_is_shown_where_tensorflow_cannot_be_imported(tmp_path):
    (tmp_path / "tensorflow.py").write_text(
        "import os\nos.write(2, b'held')\nraise OSError('lost')"
    )
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from t2t_keras.environment import speed_up_tensorflow_import\n"
        "speed_up_tensorflow_import()\nimport tensorflow"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert process.stderr.startswith("held")
    assert "OSError: lost" in process.stderr
