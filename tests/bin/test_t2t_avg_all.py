import pytest

from t2t_keras.bin import t2t_avg_all
from t2t_keras.decoding.translator import Translator


def test_a_mean_of_some_checkpoints_translates(random_run, tmp_path, capsys):
    flags = f"--model_dir={random_run}", f"--output_dir={tmp_path / 'mean'}"
    t2t_avg_all.run(["t2t-avg-all", *flags, "--n=2", "--seconds_apart=0"])
    out = capsys.readouterr().out
    assert "model.ckpt-20" in out
    assert "model.ckpt-10" not in out
    Translator.from_run(tmp_path / "mean")


@pytest.mark.parametrize(
    ("flag", "reason"),
    [
        ("--output_dir={run}", "already contains"),
        ("--seconds_apart=-1", "seconds_apart"),
        ("--n=0", "--n"),
        ("--model_dir={empty}", "no checkpoint in"),
    ],
)
def test_refused(random_run, tmp_path, refused, flag, reason):
    for name in ("run.json", "vocab.model"):
        (tmp_path / name).write_bytes((random_run / name).read_bytes())
    flags = f"--model_dir={random_run}", f"--output_dir={tmp_path / 'mean'}"
    assert reason in refused("t2t-avg-all", *flags, flag.format(run=random_run, empty=tmp_path))
