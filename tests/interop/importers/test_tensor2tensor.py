"""A checkpoint of tensor2tensor as a run, against its layers written again in NumPy."""

import dataclasses
import json
import math
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from refusals import refused

from t2t_keras.data.problem import make_problem
from t2t_keras.errors import UserError
from t2t_keras.hyperparameters import HParams, hparams, override_hparams
from t2t_keras.interop.importers.imported import Settings, make_run, read_model
from t2t_keras.interop.importers.tensor2tensor import hyperparameters, read_tensor2tensor
from t2t_keras.training.checkpoints import load_model

PAIR = ("The dog sleeps in the house.", "Der Hund schläft im Haus.")


@pytest.fixture(scope="session")
def folder(shared_data):
    return shared_data / "tensor2tensor"


class Original:
    """tensor2tensor's `transformer` for one pair, from its layers: names are those it uses."""

    def __init__(self, prefix, source_size, target_size):
        reader = tf.train.load_checkpoint(str(prefix))
        self.hparams = json.loads((prefix.parent / "hparams.json").read_text())
        names = [name for name in reader.get_variable_to_shape_map() if "Adam" not in name]
        self.weights = {name: reader.get_tensor(name).astype(np.float64) for name in names}
        self.source = self.table(source_size, "shared", "input_emb")
        self.target = self.table(target_size, "shared", "target_emb")
        self.softmax = self.table(target_size, "softmax", "shared")

    def table(self, size, *kinds):
        scope = f"transformer/symbol_modality_{size}_{self.hparams['hidden_size']}"
        kind = next(kind for kind in kinds if f"{scope}/{kind}/weights_0" in self.weights)
        names = (f"{scope}/{kind}/weights_{i}" for i in range(16))
        return np.concatenate([self.weights[name] for name in names if name in self.weights])

    def __getitem__(self, name):
        return self.weights[f"transformer/body/{name}"]

    def bottom(self, table, ids):
        return table[ids] * self.hparams["hidden_size"] ** 0.5 * (np.array(ids) != 0)[:, None]

    def placed(self, side, x):
        if self.hparams["pos"] == "emb":
            return x + self[f"{side}_positional_embedding"][: len(x)]
        return x + self.timing_signal(len(x)) if self.hparams["pos"] == "timing" else x

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

    def sublayer(self, x, scope, function):
        """layer_preprocess and layer_postprocess, without dropout"""
        if self.hparams["layer_preprocess_sequence"] == "n":
            return x + function(self.layer_norm(x, f"{scope}/layer_prepostprocess"), scope)
        return self.layer_norm(x + function(x, scope), f"{scope}/layer_postprocess")

    def stack(self, side, x, memory=None):
        ahead = 0.0 if memory is None else np.triu(np.full(2 * (len(x),), -1e9), 1)
        for layer in range(self.hparams["num_hidden_layers"]):
            scopes = [f"{side}/layer_{layer}/{name}" for name in ("self_attention", "ffn")]
            x = self.sublayer(
                x, scopes[0], lambda y, scope: self.multihead_attention(y, y, ahead, scope)
            )
            if memory is not None:
                x = self.sublayer(
                    x,
                    f"{side}/layer_{layer}/encdec_attention",
                    lambda y, scope: self.multihead_attention(y, memory, 0.0, scope),
                )
            x = self.sublayer(x, scopes[1], self.ffn)
        last = self.hparams["layer_preprocess_sequence"] == "n"
        return self.layer_norm(x, f"{side}/layer_prepostprocess") if last else x

    def logits(self, inputs, targets, target_space):
        x = self.bottom(self.source, inputs)
        if target_space is not None:
            x = x + self["target_space_embedding/kernel"][target_space]
        memory = self.stack("encoder", self.placed("inputs", x))
        # shift_right_3d
        y = self.bottom(self.target, targets)
        y = np.concatenate([np.zeros_like(y[:1]), y[:-1]])
        return self.stack("decoder", self.placed("targets", y), memory) @ self.softmax.T


def check(imported_model, original, target_space, source, target, run):
    """A run of what was found has the logits of tensor2tensor's layers."""
    problem = make_problem("parallel_text", "source_language=en,target_language=de")
    make_run(imported_model, problem, run, "the model")
    model = load_model(run).model
    logits = model({"source": source[None], "target": target[None]}).numpy()[0]
    expected = original.logits(source, target, target_space)
    assert np.abs(expected).max() > 0.5
    np.testing.assert_allclose(logits, expected, rtol=0, atol=1e-4)


def test_logits_are_those_of_tensor2tensor_s_layers(folder, tmp_path):
    actual = read_tensor2tensor(folder)
    source, target = (actual.tokenizer.encode([line])[0] for line in PAIR)
    original = Original(folder / "model.ckpt-1", *2 * [actual.tokenizer.vocab_size])
    # The row of which Adam has gradients: tokens of German.
    check(actual, original, 8, source, target, tmp_path / "run")
    assert actual.hparams["pre_norm"]
    assert (actual.hparams["dropout"], actual.hparams["learning_rate"]) == (0.1, 2.0)


# Subwords of source and target.
SIZES = (17, 18)


@pytest.fixture
def checkpoint(tmp_path):
    """checkpoint(kinds, changes, spaces, trained): a small one of random weights; its prefix.

    `kinds` are pairs of a table's kind and size; of `spaces`, those `trained` have gradients.
    """
    for name, size in zip(("vocab.en", "vocab.de"), SIZES, strict=True):
        lines = ["<pad>", "<EOS>", *"\\_u;0123456789ab"][:size]
        (tmp_path / name).write_text("".join(f"'{line}'\n" for line in lines))

    def run_with(kinds, changes, spaces=0, trained=()):
        values = values_of("transformer_base_v1") | {"hidden_size": 8, "filter_size": 12}
        values |= {"num_heads": 2, "num_hidden_layers": 1} | changes
        (tmp_path / "hparams.json").write_text(json.dumps(values))
        shapes, random = shapes_of(kinds, values), np.random.default_rng(1)
        shapes |= {"body/target_space_embedding/kernel": (spaces, 8)} if spaces else {}
        tensors = {
            f"transformer/{name}": random.normal(0, 0.5, shape).astype(np.float32)
            for name, shape in shapes.items()
        }
        if trained:
            slot = "training/transformer/body/target_space_embedding/kernel/Adam"
            tensors[slot] = np.isin(np.arange(spaces), trained)[:, None] * np.full(8, 1e-9)
        name = "transformer/body/encoder/layer_0/ffn/conv1/bias"
        for slot in ("Adam", "Adam_1", "Momentum", "vr", "vc", "ExponentialMovingAverage"):
            tensors[f"{name}/{slot}"] = tensors[name]
        names, values = zip(*tensors.items(), strict=True)
        prefix = tmp_path / "model.ckpt"
        tf.raw_ops.SaveV2(
            prefix=str(prefix),
            tensor_names=names,
            shape_and_slices=[""] * len(names),
            tensors=values,
        )
        return prefix

    return run_with


def shapes_of(kinds, values):
    """Returns the shapes of the variables of tensor2tensor's graph, of one layer a side."""
    shapes = {}
    for kind, size in kinds:
        for i in range(2):
            shapes[f"symbol_modality_{size}_8/{kind}/weights_{i}"] = ((size + 1 - i) // 2, 8)
    if values["pos"] == "emb":
        shapes |= {f"body/{side}_positional_embedding": (16, 8) for side in ("inputs", "targets")}
    first = values["layer_preprocess_sequence"] == "n"
    norm = f"layer_{'pre' * first}postprocess/layer_norm/layer_norm"
    for side, attentions in (("encoder", ["self"]), ("decoder", ["self", "encdec"])):
        layer = f"body/{side}/layer_0"
        scopes = [f"{layer}/{name}_attention" for name in attentions]
        for scope in scopes:
            for part in ("q", "k", "v", "output_transform"):
                shapes[f"{scope}/multihead_attention/{part}/kernel"] = (8, 8)
        for name, shape in (("conv1", (8, 12)), ("conv2", (12, 8))):
            shapes |= {f"{layer}/ffn/{name}/kernel": shape, f"{layer}/ffn/{name}/bias": shape[1:]}
        for scope in [*scopes, f"{layer}/ffn", *[f"body/{side}"] * first]:
            shapes |= {f"{scope}/{norm}_{part}": (8,) for part in ("scale", "bias")}
    return shapes


PRE_NORM = {"layer_preprocess_sequence": "n", "layer_postprocess_sequence": "da"}


@pytest.mark.parametrize(
    ("kinds", "changes", "spaces", "shared"),
    [
        ([("shared", 18)], {"pos": "none"}, {}, "all"),
        ([("shared", 18), ("softmax", 18)], PRE_NORM | {"pos": "emb"}, {}, "input"),
        ([("input_emb", 17), ("target_emb", 18), ("softmax", 18)], {"pos": "emb"}, {}, "none"),
        ([("shared", 17), ("shared", 18)], {}, {"spaces": 4, "trained": [3]}, "target"),
        ([("shared", 17), ("shared", 18), ("softmax", 18)], PRE_NORM, {"spaces": 4}, "none"),
    ],
)
def test_logits_of_each_kind_of_model(checkpoint, tmp_path, capsys, kinds, changes, spaces, shared):
    prefix = checkpoint(kinds, changes, **spaces)
    files, sizes = [tmp_path / "vocab.en", tmp_path / "vocab.de"], [kinds[0][1], 18]
    vocabulary = ",".join(map(str, files[sizes[0] == 18 :]))
    space = 3 if spaces else None
    actual = read_tensor2tensor(prefix, vocabulary, None if "trained" in spaces else space)
    assert ("target space 3" in capsys.readouterr().out) == ("trained" in spaces)
    assert actual.hparams.get("share_embeddings", "all") == shared
    source, target = np.array([5, 16, 2, 1]), np.array([17, 3, 9, 4, 1])
    check(actual, Original(prefix, *sizes), space, source, target, tmp_path / "run")


TWO = [("shared", 17), ("shared", 18)]


@pytest.mark.parametrize(
    ("kinds", "spaces", "vocabularies", "code", "names"),
    [
        (
            TWO,
            {},
            ["vocab.de"],
            "other_vocabulary",
            [" 17 ", " 18 ", "--vocabulary=SOURCE,TARGET"],
        ),
        (TWO, {}, [], "other_vocabulary", ["--vocabulary=SOURCE,TARGET"]),
        ([*TWO, ("shared", 19)], {}, ["vocab.en", "vocab.de"], "not_supported", [" 3 "]),
        (
            [("shared", 18), ("input_emb", 17), ("target_emb", 18)],
            {},
            ["vocab.de"],
            "missing_weight",
            ["input_emb, shared, target_emb"],
        ),
        ([("shared", 18)], {"spaces": 4}, ["vocab.de"], "bad_value", ["--target_space", "0 to 3"]),
        (
            [("shared", 18)],
            {"spaces": 4, "trained": [0, 2]},
            ["vocab.de"],
            "bad_value",
            ["--target_space"],
        ),
    ],
)
def test_what_a_checkpoint_does_not_tell_is_asked_for(
    checkpoint, tmp_path, kinds, spaces, vocabularies, code, names
):
    vocabulary = ",".join(str(tmp_path / name) for name in vocabularies)
    with refused(code, *names):
        read_tensor2tensor(checkpoint(kinds, {}, **spaces), vocabulary)


def test_spaces_that_a_checkpoint_has(checkpoint, tmp_path):
    prefix = checkpoint([("shared", 18)], {}, spaces=4)
    for space in (-1, 4):
        with refused("bad_value", "0 to 3", f" {space}."):
            read_tensor2tensor(prefix, tmp_path / "vocab.de", space)
    rows = tf.train.load_checkpoint(str(prefix)).get_tensor(
        "transformer/body/target_space_embedding/kernel"
    )
    # The vocabulary in the folder is that of the model's size, if there is but one.
    (tmp_path / "vocab.en").rename(tmp_path / "vocab.en.subwords")
    (tmp_path / "vocab.de").rename(tmp_path / "vocab.subwords.de")
    for space in (0, 3):
        actual = read_tensor2tensor(prefix, target_space=space)
        np.testing.assert_array_equal(actual.weights["source_bias"], rows[space])
        assert actual.tokenizer.vocab_size == 18
    shutil.copy(tmp_path / "vocab.subwords.de", tmp_path / "other.subwords")
    with refused("no_vocabulary", " 18 ", "--vocabulary"):
        read_tensor2tensor(prefix, target_space=0)


def test_each_side_has_the_vocabulary_of_its_size(checkpoint, tmp_path):
    prefix = checkpoint([("input_emb", 17), ("target_emb", 18), ("softmax", 18)], {})
    for name in ("vocab.en", "vocab.de"):
        (tmp_path / name).rename(tmp_path / f"{name}.subwords")
    tokenizer = read_tensor2tensor(prefix).tokenizer
    assert (tokenizer.source.vocab_size, tokenizer.vocab_size) == (17, 18)


@pytest.mark.parametrize(
    ("file", "content", "code", "named"),
    [
        ("hparams.json", "[1]", "damaged_file", "hparams.json"),
        ("hparams.json", "{}", "missing_setting", "layer_preprocess"),
        ("model.ckpt.index", "", "not_a_checkpoint", "model.ckpt"),
    ],
)
def test_damaged_files_are_refused(checkpoint, tmp_path, file, content, code, named):
    prefix = checkpoint([("shared", 18)], {})
    (tmp_path / file).write_text(content)
    with refused(code, named):
        read_tensor2tensor(prefix, tmp_path / "vocab.de")


def test_values_that_tensor2tensor_does_not_write(checkpoint, tmp_path):
    prefix = checkpoint([("shared", 18)], {"num_heads": 0})
    with refused("damaged_model"):
        read_model("tensor2tensor", prefix, ("en", "de"), tmp_path / "vocab.de")


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
    expected = dataclasses.replace(hparams(ours), sinusoids="tensor2tensor")
    assert imported(values_of(theirs)) == expected


def test_a_schedule_of_versions_without_learning_rate_constant():
    values = values_of("transformer_base_v3")
    del values["learning_rate_constant"]
    assert hyperparameters(Settings(values, "it"))["learning_rate"] == 10 * 0.2


def test_each_hyperparameter_is_represented_or_refused_or_without_effect():
    for name in SETS:
        values = values_of(name) | {"learning_rate_constant": 3.0}
        as_is = imported(values)
        legacy = values.get("learning_rate_schedule", "legacy") == "legacy"
        settings = OTHERS | {"learning_rate_schedule": "constant" if legacy else "legacy"}
        # Which of the two rates counts, the schedule says.
        ignored = "learning_rate_constant" if legacy else "learning_rate"
        for setting, value in values.items():
            if WITHOUT_EFFECT.fullmatch(setting):
                continue
            changed = {str: "another", bool: not value, int: 4, float: 0.25, dict: {"x": 1}}
            other = settings.get(setting, changed[type(value)])
            assert other != value, setting
            try:
                result = imported(values | {setting: other})
            except UserError as error:
                result = str(error)
            is_refused = isinstance(result, str) and f"it: {setting}=" in result
            assert is_refused or result != as_is or setting == ignored, setting


OTHERS = {"multiply_embedding_mode": "none", "pos": "emb", "hidden_size": 64, "num_heads": 2}
OTHERS |= {
    "attention_key_channels": 64,
    "attention_value_channels": 64,
    "num_hidden_layers": 3,
    "max_length": 128,
}
