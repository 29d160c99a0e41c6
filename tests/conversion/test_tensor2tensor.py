"""A checkpoint of tensor2tensor as a run, against its layers written again in NumPy."""

import json
import math

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras import registry
from t2t_keras.conversion.imported import Settings, make_run
from t2t_keras.conversion.tensor2tensor import hyperparameters, read_tensor2tensor
from t2t_keras.errors import UserError
from t2t_keras.training.trained_model import load_model

PAIR = ("The dog sleeps in the house.", "Der Hund schläft im Haus.")


@pytest.fixture(scope="session")
def folder(shared_data):
    return shared_data / "tensor2tensor"


@pytest.fixture(scope="module")
def trained(folder, tmp_path_factory):
    run = tmp_path_factory.mktemp("imported") / "run"
    problem = registry.problem("parallel_text", "source_language=en,target_language=de")
    make_run(read_tensor2tensor(folder, target_space=8), problem, run, "the model")
    return load_model(run)


class Original:
    """tensor2tensor's `transformer` for one pair, from its layers: names are those it uses."""

    def __init__(self, folder):
        reader = tf.train.load_checkpoint(str(folder))
        self.hparams = json.loads((folder / "hparams.json").read_text())
        names = [name for name in reader.get_variable_to_shape_map() if "Adam" not in name]
        self.weights = {name: reader.get_tensor(name).astype(np.float64) for name in names}
        shards = [name for name in names if "symbol_modality" in name]
        shards.sort(key=lambda name: int(name.rpartition("_")[2]))
        self.table = np.concatenate([self.weights[name] for name in shards])

    def __getitem__(self, name):
        return self.weights[f"transformer/body/{name}"]

    def bottom(self, ids):
        depth = self.hparams["hidden_size"]
        return self.table[ids] * depth**0.5 * (np.array(ids) != 0)[:, None]

    def timing_signal(self, length):
        """get_timing_signal_1d"""
        scales = self.hparams["hidden_size"] // 2
        increment = math.log(1e4) / (scales - 1)
        inverse = np.exp(np.arange(scales) * -increment)
        time = np.arange(length)[:, None] * inverse
        return np.concatenate([np.sin(time), np.cos(time)], axis=1)

    def layer_norm(self, x, scope):
        scale, bias = (self[f"{scope}/layer_norm/layer_norm_{part}"] for part in ("scale", "bias"))
        centred = x - x.mean(axis=-1, keepdims=True)
        variance = np.mean(centred**2, axis=-1, keepdims=True)
        return centred / np.sqrt(variance + self.hparams["norm_epsilon"]) * scale + bias

    def multihead_attention(self, query, memory, bias, scope):
        heads = self.hparams["num_heads"]
        q, k, v = (
            np.split(x @ self[f"{scope}/multihead_attention/{name}/kernel"], heads, axis=1)
            for name, x in (("q", query), ("k", memory), ("v", memory))
        )
        outputs = []
        for head in range(heads):
            logits = (q[head] * q[head].shape[1] ** -0.5) @ k[head].T + bias
            weights = np.exp(logits - logits.max(axis=1, keepdims=True))
            outputs.append(weights / weights.sum(axis=1, keepdims=True) @ v[head])
        joined = np.concatenate(outputs, axis=1)
        return joined @ self[f"{scope}/multihead_attention/output_transform/kernel"]

    def ffn(self, x, scope):
        inner = np.maximum(x @ self[f"{scope}/conv1/kernel"] + self[f"{scope}/conv1/bias"], 0)
        return inner @ self[f"{scope}/conv2/kernel"] + self[f"{scope}/conv2/bias"]

    def stack(self, side, x, memory=None):
        """layer_preprocess_sequence "n", layer_postprocess_sequence "da", without dropout."""
        bias = np.zeros((len(x), len(x))) if memory is None else np.triu(np.full(2 * (len(x),), -1e9), 1)
        for layer in range(self.hparams["num_hidden_layers"]):
            scope = f"{side}/layer_{layer}"
            y = self.layer_norm(x, f"{scope}/self_attention/layer_prepostprocess")
            x = x + self.multihead_attention(y, y, bias, f"{scope}/self_attention")
            if memory is not None:
                y = self.layer_norm(x, f"{scope}/encdec_attention/layer_prepostprocess")
                x = x + self.multihead_attention(y, memory, 0.0, f"{scope}/encdec_attention")
            y = self.layer_norm(x, f"{scope}/ffn/layer_prepostprocess")
            x = x + self.ffn(y, f"{scope}/ffn")
        return self.layer_norm(x, f"{side}/layer_prepostprocess")

    def logits(self, inputs, targets, target_space):
        x = self.bottom(inputs) + self["target_space_embedding/kernel"][target_space]
        memory = self.stack("encoder", x + self.timing_signal(len(x)))
        # shift_right_3d
        x = np.concatenate([np.zeros((1, self.table.shape[1])), self.bottom(targets)[:-1]])
        return self.stack("decoder", x + self.timing_signal(len(x)), memory) @ self.table.T


def test_logits_are_those_of_tensor2tensor_s_layers(trained, folder):
    source, target = (trained.tokenizer.encode([line])[0] for line in PAIR)
    found = trained.model({"source": source[None], "target": target[None]}).numpy()[0]
    expected = Original(folder).logits(source, target, target_space=8)
    assert np.abs(expected).max() > 0.5
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)
    assert trained.hparams.pre_norm
    assert (trained.hparams.dropout, trained.hparams.learning_rate) == (0.1, 2.0)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("self_attention_type", "dot_product_relative"),
        ("ffn_layer", "self_attention_ffn"),
        ("norm_type", "batch"),
        ("proximity_bias", True),
        ("multiply_embedding_mode", "none"),
        ("layer_preprocess_sequence", "dn"),
    ],
)
def test_what_cannot_be_represented_is_refused_by_name(folder, name, value):
    values = json.loads((folder / "hparams.json").read_text())
    hyperparameters(Settings(values, "it"))
    with pytest.raises(UserError, match=rf"it: {name}='?{value}"):
        hyperparameters(Settings(values | {name: value}, "it"))
