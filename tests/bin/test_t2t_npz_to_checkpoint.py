import pytest

from t2t_keras.bin import t2t_npz_to_checkpoint
from t2t_keras.bin.flags import run_command
from t2t_keras.decoding.translator import Translator
from t2t_keras.training.checkpoints import npz
from t2t_keras.training.checkpoints.tensorflow import load_weights
from t2t_keras.training.run_config import RunConfig


def convert(*arguments):
    t2t_npz_to_checkpoint.run(["t2t-npz-to-checkpoint", *map(str, arguments)])


def test_a_converted_checkpoint_translates(random_run, tmp_path, capsys):
    record = RunConfig.load(random_run)
    model = record.make_model()
    load_weights(model, random_run / "model.ckpt-20")
    record.save(tmp_path / "npz")
    npz.Checkpoints(tmp_path / "npz", {"model": model}, keep=9).save(20)
    path = tmp_path / "npz" / "model.ckpt-20"
    convert(f"--model_dir={path.parent}", f"--output_dir={tmp_path / 'new'}")
    assert f"{tmp_path / 'new' / 'model.ckpt-20'} is {path}.npz" in capsys.readouterr().out
    Translator.from_run(tmp_path / "new")
    convert(
        f"--model_dir={path.parent}",
        f"--output_dir={tmp_path / 'named'}",
        f"--checkpoint_path={path}",
    )
    assert (tmp_path / "named" / "model.ckpt-20.index").exists()


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (["--output_dir=new"], "--model_dir"),
        (["--output_dir=new", "--model_dir=none"], "no run in"),
        (["--output_dir=new", "--model_dir={run}"], "no .npz checkpoint"),
    ],
)
def test_refused(random_run, refused, flags, reason):
    flags = (flag.format(run=random_run) for flag in flags)
    assert reason in refused("t2t-npz-to-checkpoint", *flags)


def test_a_package_that_is_not_installed_is_named(capsys):
    def main(flags):
        raise ModuleNotFoundError("No module named 'tensorflow'", name="tensorflow")

    with pytest.raises(SystemExit) as stop:
        run_command(lambda flags: None, main, ["t2t-trainer"])
    assert stop.value.code == 2
    assert "t2t-trainer: needs tensorflow, which is not installed" in capsys.readouterr().err
