import pytest

from t2t_keras.bin import t2t_npz_to_checkpoint
from t2t_keras.decoding.translator import Translator
from t2t_keras.training.checkpoints import npz
from t2t_keras.training.checkpoints.tensorflow import load_weights
from t2t_keras.training.run_config import RunConfig


@pytest.mark.parametrize("named", [False, True])
def test_a_converted_checkpoint_translates(random_run, tmp_path, capsys, named):
    record = RunConfig.load(random_run)
    model = record.make_model()
    load_weights(model, random_run / "model.ckpt-20")
    record.save(tmp_path / "npz")
    npz.Checkpoints(tmp_path / "npz", {"model": model}, keep=9).save(20)
    path, new = tmp_path / "npz" / "model.ckpt-20", tmp_path / "new"
    flags = [f"--model_dir={path.parent}", f"--output_dir={new}"]
    flags += [f"--checkpoint_path={path}"] * named
    t2t_npz_to_checkpoint.run(["t2t-npz-to-checkpoint", *flags])
    assert f"{new / 'model.ckpt-20'} is {path}.npz" in capsys.readouterr().out
    Translator.from_run(new)


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
