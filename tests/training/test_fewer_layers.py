"""First weights from a model with more layers: which layers are kept, and that all else is."""

import numpy as np
import pytest

from t2t_keras import registry
from t2t_keras.errors import UserError
from t2t_keras.text.words import WordTokenizer
from t2t_keras.training.backends import base as backend
from t2t_keras.training.checkpoints import npz, tensorflow
from t2t_keras.training.fewer_layers import layers_to_keep
from t2t_keras.training.options import TrainOptions
from t2t_keras.training.run_config import RunConfig
from t2t_keras.training.trained_model import load_first_weights

SIZES = dict(num_layers=4, num_decoder_layers=3, d_model=8, d_ff=8, num_heads=2)


def run_with(**hparams):
    hparams = registry.hparams("transformer_tiny", SIZES | hparams)
    tokenizer = WordTokenizer.of(["<blank>", "</s>", "<unk>", "a", "b"])
    return RunConfig(registry.problem("parallel_text"), hparams, tokenizer=tokenizer)


@pytest.fixture
def save_teacher(tmp_path, randomised, monkeypatch):
    def save(files, **hparams):
        monkeypatch.setattr(backend, "checkpoints", lambda: files)
        run = run_with(**hparams)
        run.save(tmp_path)
        model = randomised(run.make_model())
        files.Checkpoints(tmp_path, {"model": model}, keep=1).save(5)
        return {each.path.partition("/")[2]: each.numpy() for each in model.weights}

    return save


def test_evenly_spread():
    chosen = [layers_to_keep(count, 6) for count in range(1, 7)]
    assert chosen[:4] == [[0], [0, 5], [0, 2, 5], [0, 2, 3, 5]]
    assert chosen[5] == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("files", [tensorflow, npz])
def test_layers_keep_their_weights(save_teacher, tmp_path, capsys, files):
    teacher = save_teacher(files)
    run = run_with(num_layers=2, num_decoder_layers=1)
    model = run.make_model()
    load_first_weights(model, run, str(tmp_path), drop_layers=True)
    places = {"encoder_1": "encoder_3"}
    for weight in model.weights:
        name = weight.path.partition("/")[2]
        layer, slash, rest = name.partition("/")
        expected = teacher[f"{places.get(layer, layer)}{slash}{rest}"]
        np.testing.assert_array_equal(weight.numpy(), expected, err_msg=name)
    assert "Layers kept, from 0: encoder 0, 3; decoder 0." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("theirs", "hparams", "message"),
    [
        ({}, dict(num_layers=5), "it has 4 layers in the encoder, not 5"),
        ({}, dict(d_ff=16), r"feed_forward/inner/kernel is \[8, 8\] there, \[8, 16\] here"),
        (dict(pre_norm=True), dict(num_layers=2), r"encoder_norm/gamma is \[8\] there, not here"),
        (dict(softmax_bias=True), {}, "Give the same hyperparameters, but fewer"),
        (
            dict(attention_bias=True),
            dict(num_layers=2),
            r"ncoder_\d/.*bias is \[8\] there, not here",
        ),
    ],
)
def test_refused(save_teacher, tmp_path, theirs, hparams, message):
    save_teacher(tensorflow, **theirs)
    run = run_with(**hparams)
    with pytest.raises(UserError, match=message):
        load_first_weights(run.make_model(), run, str(tmp_path), drop_layers=True)


def test_flags_that_do_not_fit():
    with pytest.raises(UserError, match="--drop_layers needs --warm_start_from"):
        TrainOptions(drop_layers=True)
    with pytest.raises(UserError, match="exclude each other"):
        TrainOptions(warm_start_from="run", drop_layers=True, adapt_vocabulary=True)
