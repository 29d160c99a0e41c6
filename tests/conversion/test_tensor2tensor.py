"""A checkpoint of tensor2tensor as a run, against its layers written again in NumPy."""

import dataclasses
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras import registry
from t2t_keras.conversion.imported import Settings, make_run
from t2t_keras.conversion.tensor2tensor import hyperparameters, read_tensor2tensor
from t2t_keras.errors import UserError
from t2t_keras.hyperparameters import HParams, override_hparams
from t2t_keras.training.trained_model import load_model

PAIR = ("The dog sleeps in the house.", "Der Hund schläft im Haus.")


@pytest.fixture(scope="session")
def folder(shared_data):
    return shared_data / "tensor2tensor"


@pytest.fixture(scope="module")
def trained(folder, tmp_path_factory):
    run = tmp_path_factory.mktemp("imported") / "run"
    problem = registry.problem("parallel_text", "source_language=en,target_language=de")
    make_run(read_tensor2tensor(folder, target_language="de"), problem, run, "the model")
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
        bias = (
            np.zeros((len(x), len(x)))
            if memory is None
            else np.triu(np.full(2 * (len(x),), -1e9), 1)
        )
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


SETS = json.loads((Path(__file__).parent / "fixtures" / "tensor2tensor_sets.json").read_text())
# Of what a set names, what neither a trained model's graph nor its further training depends on:
# settings of input, sampling, evaluation and optimizers; noise and first values of its training;
# and those of layers that the sets do not have.
WITHOUT_EFFECT = re.compile(
    r"batch_(size|shuffle_size)|use_fixed_batch_size|.*(max|min|drop_long)_?.*(length|seq).*|"
    r"length_bucket_step|min_length.*|(split|pad|pack|eval|video|multiproblem|sampling)_.*|"
    r"scheduled_sampling_.*|symbol_modality_num_shards|dropout|.*_broadcast_dims|symbol_dropout|"
    r"weight_(decay|noise|dtype)|weights_fn|loss|clip_grad_norm|.*grad.*|summarize_.*|mlperf_mode|"
    r"initializer.*|optimizer(_(adafactor|momentum|multistep)_.*)?|mixed_.*|.*precision|"
    r"learning_rate_(decay|minimum|cosine).*|factored_logits|moe_.*|compress_steps|kernel_.*|"
    r"use_(custom_ops|pad_remover|target_space_embedding)|daisy_chain_variables|force_full_predict|"
    r"no_data_parallelism|activation_dtype|pretrained_model_dir|warm_start_from_second|"
    r"tpu_enable_host_call|num_sampled_classes|overload_eval_metric_name|nbr_decoder_problems|"
    r"position_features|conv_first_kernel|parameter_attention_.*|max_relative_position|"
    r"heads_share_relative_embedding|add_relative_to_values|area_.*_mode|max_area_.*|memory_height|"
    r"shared_embedding(_and_softmax_weights)?"  # The checkpoint tells.
)


def values_of(name):
    return SETS["transformer_base_v1"] | SETS[name]


def imported(values):
    return override_hparams(HParams(), hyperparameters(Settings(values, "it")))


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("transformer_base_v1", "transformer_base"),
        ("transformer_base_v3", "transformer_base_v3"),
        ("transformer_base", "transformer_base_v3"),
    ],
)
def test_sets_are_those_of_the_same_name_here(theirs, ours):
    expected = dataclasses.replace(registry.hparams(ours), sinusoids="tensor2tensor")
    assert imported(values_of(theirs)) == expected


def test_each_hyperparameter_is_represented_or_refused_or_without_effect():
    for name in SETS:
        values = values_of(name)
        as_is = imported(values)
        for setting, value in values.items():
            if WITHOUT_EFFECT.fullmatch(setting):
                continue
            changed = {str: "another", bool: not value, int: 4, float: 0.25, dict: {"x": 1}}
            other = OTHERS.get(setting, changed[type(value)])
            assert other != value, setting
            try:
                result = imported(values | {setting: other})
            except UserError as error:
                result = str(error)
            # Which of the two rates counts, the schedule says.
            refused = isinstance(result, str) and re.search(
                rf"{setting}|layer_postprocess_sequence", result
            )
            assert refused or result != as_is or setting.startswith("learning_rate"), setting


OTHERS = {"multiply_embedding_mode": "none", "pos": "emb", "hidden_size": 64, "num_heads": 2}
OTHERS |= {
    "attention_key_channels": 64,
    "attention_value_channels": 64,
    "num_hidden_layers": 3,
    "max_length": 128,
    "learning_rate_schedule": "constant",
}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("self_attention_type", "dot_product_relative"),
        ("ffn_layer", "self_attention_ffn"),
        ("norm_type", "batch"),
        ("proximity_bias", True),
        ("unidirectional_encoder", True),
        ("layer_preprocess_sequence", "dn"),
    ],
)
def test_what_cannot_be_represented_is_refused_by_name(folder, name, value):
    values = json.loads((folder / "hparams.json").read_text())
    hyperparameters(Settings(values, "it"))
    with pytest.raises(UserError, match=rf"it: {name}='?{value}"):
        hyperparameters(Settings(values | {name: value}, "it"))
