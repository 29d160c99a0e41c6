"""First weights from a model with more layers: which layers are kept, and that all else is."""

import numpy as np
import pytest
from refusals import refused

from t2t_keras import hyperparameters
from t2t_keras.data.problem import make_problem
from t2t_keras.text.tokenizer import SentencePieceTokenizer
from t2t_keras.training.checkpoints import Checkpoints
from t2t_keras.training.run_config import RunConfig, TrainOptions
from t2t_keras.training.warm_start import layers_to_keep, load_first_weights

SIZES = dict(num_layers=4, num_decoder_layers=3, d_model=8, d_ff=8, num_heads=2)


def run_with(**hparams):
    hparams = hyperparameters.hparams("transformer_tiny", SIZES | hparams)
    tokenizer = SentencePieceTokenizer.train(["ab"], 9, "char")
    return RunConfig(make_problem("parallel_text"), hparams, tokenizer=tokenizer)


@pytest.fixture
def save_teacher(tmp_path, randomised):
    def save(**hparams):
        run = run_with(**hparams)
        run.save(tmp_path)
        model = randomised(run.make_model())
        Checkpoints(tmp_path, {"model": model}, keep=1).save(5)
        return {each.path.partition("/")[2]: each.numpy() for each in model.weights}

    return save


def test_evenly_spread():
    chosen = [layers_to_keep(count, 6) for count in range(1, 7)]
    assert chosen[:4] == [[0], [0, 5], [0, 2, 5], [0, 2, 3, 5]]
    assert chosen[5] == [0, 1, 2, 3, 4, 5]


def test_layers_keep_their_weights(save_teacher, tmp_path, capsys):
    teacher = save_teacher()
    run = run_with(num_layers=2, num_decoder_layers=1)
    model = run.make_model()
    load_first_weights(model, run, str(tmp_path), drop_layers=True)
    places = {"encoder_1": "encoder_3"}
    for weight in model.weights:
        name = weight.path.partition("/")[2]
        layer, slash, rest = name.partition("/")
        expected = teacher[f"{places.get(layer, layer)}{slash}{rest}"]
        np.testing.assert_array_equal(weight.numpy(), expected, err_msg=name)
    assert " encoder 0, 3; decoder 0." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("theirs", "hparams", "names"),
    [
        ({}, dict(num_layers=5), ["encoder", " 4 ", " 5"]),
        ({}, dict(d_ff=16), ["feed_forward/inner/kernel", "[8, 8]", "[8, 16]"]),
        (dict(pre_norm=True), dict(num_layers=2), ["decoder_norm/beta", "[8]"]),
        (dict(softmax_bias=True), {}, ["bias", "[5]"]),
        (dict(attention_bias=True), dict(num_layers=2), ["decoder_", "/bias", "[8]"]),
    ],
)
def test_refused(save_teacher, tmp_path, theirs, hparams, names):
    save_teacher(**theirs)
    run = run_with(**hparams)
    with refused("other_model", tmp_path / "model.ckpt-5", *names):
        load_first_weights(run.make_model(), run, str(tmp_path), drop_layers=True)


def test_flags_that_do_not_fit():
    with refused("conflicting_settings", "--drop_layers", "--warm_start_from"):
        TrainOptions(drop_layers=True)
    with refused("conflicting_settings", "--adapt_vocabulary", "--drop_layers"):
        TrainOptions(warm_start_from="run", drop_layers=True, adapt_vocabulary=True)
