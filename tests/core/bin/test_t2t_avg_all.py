"""A run that t2t-avg-all makes of another can translate."""

from t2t_keras.bin import t2t_avg_all
from t2t_keras.decoding.translator import Translator


def test_a_mean_of_some_checkpoints(random_run, tmp_path, capsys):
    flags = f"--model_dir={random_run}", f"--output_dir={tmp_path / 'mean'}"
    t2t_avg_all.run(["t2t-avg-all", *flags, "--n=2", "--seconds_apart=0"])
    out = capsys.readouterr().out
    assert "model.ckpt-20" in out
    assert "model.ckpt-10" not in out
    Translator.from_run(tmp_path / "mean")
