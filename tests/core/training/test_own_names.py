"""The examples in examples/parts train, decode as the whole model, and can be continued."""

import ast
import dataclasses
import random
import re
import sys
import types

import keras
import numpy as np
import pytest
from refusals import refused

from t2t_keras import hyperparameters, registry
from t2t_keras.data.batches import make_batch
from t2t_keras.data.chunks import ExampleChunk
from t2t_keras.data.dataset import open_generated
from t2t_keras.data.encode import encode_chunk
from t2t_keras.data.generate import generate
from t2t_keras.data.problem import make_problem
from t2t_keras.hyperparameters import HParams, override_hparams
from t2t_keras.metrics import bleu
from t2t_keras.training.backends.tensorflow import TensorFlowStep
from t2t_keras.training.checkpoints import Checkpoints, load_weights
from t2t_keras.training.optimizer import Adam
from t2t_keras.training.run_config import RunConfig, TrainOptions
from t2t_keras.training.trainer import train

TRAINING = dict(optimizer="nesterov", schedule="linear", loss="focal", warmup_steps=1)
PARTS = dict(activation="squared_relu", feed_forward="gated_feed_forward", positions="ramp")


@pytest.fixture(autouse=True)
def examples(root, own_registry, monkeypatch):
    """The module of the examples; what they register is known."""
    source = (root / "examples" / "parts" / "__init__.py").read_text(encoding="utf-8")
    module = types.ModuleType("examples")
    # dataclasses looks a class's module up there.
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(source, module.__dict__)
    definitions = [node for node in ast.parse(source).body if hasattr(node, "decorator_list")]
    for node in definitions:
        lines = ast.get_source_segment(source, node).splitlines()
        assert len(list(filter(None, lines))) < 21
    assert len(definitions) == 18
    return module


def test_the_page_shows_the_examples(root):
    source = (root / "examples" / "parts" / "__init__.py").read_text(encoding="utf-8")
    text = (root / "docs" / "extending.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    assert [block for block in blocks if block not in source] == []
    kinds = {*re.findall(r"@t2t\.register_(\w+)", source)}
    assert kinds == {*re.findall(r"^\| `(\w+)` \|", text, re.M)}


@pytest.fixture
def make_step(make_record, make_strategy):
    """make_step(replicas, **hparams): a step over so many replicas."""

    def make(replicas=1, **hparams):
        record = make_record(dropout=0.0, **hparams)
        return TensorFlowStep(record.make_model, record.hparams, make_strategy(replicas), 1)

    return make


def weights_of(step):
    return np.concatenate([np.ravel(w.numpy()) for w in step.model.trainable_variables])


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize(
    "changes",
    [
        dict(activation="squared_relu", num_encoder_layers=2),
        dict(feed_forward="gated_feed_forward", positions="ramp"),
    ],
)
def test_what_a_model_is_made_of(make_step, generated, changes):
    """Each name acts, and position by position the model decodes what it does as a whole."""
    step = make_step(**changes)
    batch = make_batch(generated.open_examples("train"), np.arange(4))
    inputs = {"source": batch.source, "target": batch.target}
    whole = step.model(inputs).numpy()
    for name in changes:
        other = make_step(**{key: value for key, value in changes.items() if key != name})
        assert other.model.count_params() != step.model.count_params() or not np.allclose(
            other.model(inputs).numpy(), whole
        )
    memory, mask = step.model.encode(batch.source)
    cache = step.model.start_cache(memory, mask, batch.target.shape[1])
    before = np.pad(batch.target, [[0, 0], [1, 0]])
    for index in range(batch.target.shape[1]):
        logits, cache = step.model.decode_step(before[:, index : index + 1], index, cache)
        np.testing.assert_allclose(logits[:, 0], whole[:, index], atol=1e-4)
    again = type(step.model).from_config(step.model.get_config())
    again.build()
    again.set_weights(step.model.get_weights())
    np.testing.assert_allclose(again(inputs).numpy(), whole, atol=1e-6)


def test_an_own_hyperparameter_is_checked_recorded_and_reaches_the_layer(make_record, tmp_path):
    hparams = hyperparameters.hparams("transformer_multiple", "num_layers=1,d_model=16,num_heads=2")
    with refused("unknown_name", "'inner_multipl'", "'inner_multiple'"):
        override_hparams(hparams, "inner_multipl=2")
    with refused("bad_value", "'inner_multiple'", 9, 10):
        override_hparams(hparams, "inner_multiple=10")
    record = dataclasses.replace(make_record(), hparams=hparams)
    record.save(tmp_path)
    loaded = RunConfig.load(tmp_path)
    assert (loaded.hparams, loaded.hparams.inner_multiple) == (hparams, 3)
    model = loaded.make_model()
    assert model.encoder[0].feed_forward.weights[0].shape == (16, 48)
    # The class of the hyperparameters is found again.
    again = type(model).from_config(model.get_config())
    assert again.config == model.config


def test_own_training_is_the_same_on_two_replicas_and_resumed(
    make_step, make_record, generated, tmp_path, request
):
    own = TRAINING | PARTS
    config = make_record(dropout=0.0, train_steps=4, **own)
    options = TrainOptions(schedule="train")
    never_stopped = make_step(**own)
    train(config, generated, tmp_path / "whole", never_stopped, options)
    request.getfixturevalue("eagerly")  # What is compiled has been seen.
    half = dataclasses.replace(config, hparams=override_hparams(config.hparams, "train_steps=2"))
    # The learning rate depends on the number of steps.
    train(half, generated, tmp_path / "parts", make_step(**own), options)
    resumed = make_step(2, **own)
    assert train(config, generated, tmp_path / "parts", resumed, options).step == 4
    np.testing.assert_allclose(weights_of(resumed), weights_of(never_stopped), atol=2e-5)


def test_the_learning_rate_and_the_loss(examples):
    hparams = hyperparameters.hparams("transformer_tiny", "train_steps=100,warmup_steps=10")
    schedule = examples.linear(hparams)
    rates = [float(schedule(step)) for step in (0, 5, 10, 55, 100)]
    np.testing.assert_allclose(rates, [0.01, 0.0095, 0.009, 0.0045, 0], atol=1e-8)
    logits = np.random.default_rng(0).normal(size=(2, 3, 5)).astype(np.float32)
    targets = np.array([[1, 4, 0], [2, 2, 3]])
    p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    p = np.take_along_axis(p, targets[..., None], -1)[..., 0]
    actual = examples.focal(logits, targets, hparams)
    np.testing.assert_allclose(
        keras.ops.convert_to_numpy(actual), -((1 - p) ** 2) * np.log(p), 1e-5
    )


def test_own_optimizers_need_no_loss_scale():
    with refused("conflicting_settings", "compute_dtype=float16", "optimizer=nesterov"):
        hyperparameters.hparams("transformer_tiny", "optimizer=nesterov,compute_dtype=float16")


def test_an_augmentation_disturbs_text():
    change = registry.AUGMENTATIONS["run_together"]
    changed = [change("a man sleeps", "x", random.Random(seed)) for seed in range(20)]
    sources = {source for source, target in changed if target == "x"}
    assert sources == {"a man sleeps", "aman sleeps", "a mansleeps"}
    assert make_problem("parallel_text", "augment={run_together: 0.5}").augment


def test_a_filter_leaves_pairs_out_and_counts_them(tmp_path):
    for split, extra in (("train", ["STOP|Halt", "Stop|HALT"]), ("dev", [])):
        pairs = [pair.split("|") for pair in [*["one|eins", "two|zwei"] * 9, *extra]]
        for language, lines in zip(("en", "de"), zip(*pairs, strict=True), strict=True):
            (tmp_path / f"{split}.{language}").write_text("\n".join(lines), encoding="utf-8")
    config = "source_language=en,target_language=de,vocab_size=280,filters=shouting"
    manifest = generate(make_problem("parallel_text", config), tmp_path / "data", tmp_path)
    train = manifest["splits"]["train"]
    assert (train["examples"], train["left_out"]["by shouting"]["count"]) == (19, 1)
    # What data is scored by may change.
    scored = make_problem("parallel_text", f"{config},metrics=exact_match")
    data = open_generated(scored, tmp_path / "data")
    assert data.problem.metrics == ("exact_match",)
    with refused("unknown_name", "'exact_mash'", "'exact_match'"):
        make_problem("parallel_text", "metrics=exact_mash")
    registry.FILTERS.entries.clear()  # as in a worker process, which knows no notebook
    chunk = ExampleChunk((("ONE", "eins"),), 1)
    with refused("unknown_name", "'shouting'"):
        encode_chunk(data.problem, data.tokenizer, tmp_path, "train", "train-0", chunk)


@pytest.mark.usefixtures("eagerly")
def test_an_optimizer_that_is_our_adam_keeps_its_own_settings(own_registry, make_step, generated):
    @registry.register_optimizer
    def still(hparams, schedule):
        return Adam(0.0)

    step = make_step(optimizer="still")
    before = weights_of(step)
    step.update(0, [[make_batch(generated.open_examples("train"), np.arange(4))]])
    np.testing.assert_array_equal(weights_of(step), before)


class Experts(keras.layers.Layer):
    """Sub-layers in a list, and a weight that is not trained."""

    def __init__(self, config, d_model, **kwargs):
        super().__init__(**kwargs)
        dtype = self.dtype_policy
        self.experts = [keras.layers.Dense(d_model, dtype=dtype, name=f"e{i}") for i in range(2)]

    def build(self, x_shape):
        self.scale = self.add_weight(
            name="scale", shape=(), initializer="random_normal", trainable=False
        )
        for expert in self.experts:
            expert.build(x_shape)

    def call(self, x, training=None):
        return sum(expert(x) for expert in self.experts) * self.scale


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize("recompute", [False, True])
def test_what_a_layer_keeps_in_lists_is_saved_and_what_it_does_not_train_stays(
    own_registry, make_step, generated, tmp_path, recompute
):
    registry.register_feed_forward(Experts)
    step, other = (make_step(feed_forward="experts", recompute=recompute) for _ in range(2))
    batch = make_batch(generated.open_examples("train"), np.arange(4))
    step.update(0, [[batch]])
    path = Checkpoints(tmp_path, {"model": step.model}, keep=1).save(1)
    other.model.set_weights([np.zeros(w.shape) for w in other.model.weights])
    load_weights(other.model, path)
    for other_weight, expected in zip(other.model.weights, step.model.weights, strict=True):
        np.testing.assert_array_equal(other_weight, expected)


def test_a_metric_stands_beside_bleu():
    problem = make_problem("translate_ende_toy", "metrics=exact_match")
    lines = ["Der Hund schläft.", "Die Katze isst."]
    score = problem.score(lines, [lines[0], "Die Maus isst."])
    assert score.metrics == {"exact_match": 50}
    assert str(score).splitlines()[-1] == "exact_match = 50"
    assert score.bleu == bleu(lines, [lines[0], "Die Maus isst."]).bleu


def test_a_problem_and_a_set(examples, tmp_path):
    problem = make_problem("translate_ende_help_desk_rev", "vocab_size=500")
    assert isinstance(problem, examples.TranslateEndeHelpDesk)
    assert (problem.languages(), problem.vocab_size) == (("de", "en"), 500)
    names = {split: pair.source.name for split, (pair,) in problem.files(tmp_path).items()}
    assert names == {split: f"{split}.en" for split in ("train", "dev", "test")}
    assert hyperparameters.hparams("transformer_more_dropout") == HParams(dropout=0.2)
