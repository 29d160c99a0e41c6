import pytest
import tensorflow as tf

from t2t_keras.bin import t2t_exporter
from t2t_keras.decoding.translator import Translator

LINES = ["A man sleeps.", "", "The dog eats in the red house."]


def test_exports_the_newest_checkpoint(random_run, tmp_path, capsys):
    settings = "beam_size=3,extra_length=2"
    t2t_exporter.run(
        [
            "t2t-exporter",
            f"--output_dir={random_run}",
            f"--export_dir={tmp_path}",
            f"--decode_hparams={settings}",
        ]
    )
    (version,) = tmp_path.iterdir()
    assert f"{version}: SavedModel" in capsys.readouterr().out
    serve = tf.saved_model.load(str(version)).signatures["serving_default"]
    texts = [text.decode() for text in serve(text=tf.constant(LINES))["translation"].numpy()]
    translator = Translator.from_run(random_run, random_run / "model.ckpt-30", settings)
    assert texts == [translation.text for translation in translator.translate(LINES)]


def test_errors_are_one_message(random_run, capsys):
    with pytest.raises(SystemExit) as caught:
        t2t_exporter.run(["t2t-exporter", f"--output_dir={random_run}", "--decode_hparams=alpha=x"])
    assert caught.value.code == 2
    assert "'alpha' takes a number" in capsys.readouterr().err
    assert not (random_run / "export").exists()
