"""Runs that t2t-avg-all and t2t-npz-to-checkpoint make of others can translate."""

from t2t_keras.bin import t2t_avg_all, t2t_npz_to_checkpoint
from t2t_keras.decoding.translator import Translator
from t2t_keras.training.checkpoints import npz
from t2t_keras.training.checkpoints.tensorflow import load_weights
from t2t_keras.training.run_config import RunConfig


def test_a_mean_of_some_checkpoints(random_run, tmp_path, capsys):
    flags = f"--model_dir={random_run}", f"--output_dir={tmp_path / 'mean'}"
    t2t_avg_all.run(["t2t-avg-all", *flags, "--n=2", "--seconds_apart=0"])
    out = capsys.readouterr().out
    assert "model.ckpt-20" in out
    assert "model.ckpt-10" not in out
    Translator.from_run(tmp_path / "mean")


def test_a_converted_checkpoint(random_run, tmp_path, capsys):
    record = RunConfig.load(random_run)
    model = record.make_model()
    load_weights(model, random_run / "model.ckpt-20")
    record.save(tmp_path / "npz")
    npz.Checkpoints(tmp_path / "npz", {"model": model}, keep=9).save(20)
    path, new = tmp_path / "npz" / "model.ckpt-20", tmp_path / "new"
    flags = f"--model_dir={path.parent}", f"--output_dir={new}", f"--checkpoint_path={path}"
    t2t_npz_to_checkpoint.run(["t2t-npz-to-checkpoint", *flags])
    said = capsys.readouterr().out
    assert said.startswith(f"{new / 'model.ckpt-20'} ")
    assert f"{path}.npz" in said
    Translator.from_run(new)
