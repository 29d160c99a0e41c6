"""Each hyperparameter, and the seed, changes a run; and first of all what it is said to change."""

import contextlib
import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras import hyperparameters
from t2t_keras.data.dataset import open_generated
from t2t_keras.data.generate import generate
from t2t_keras.data.problem import make_problem
from t2t_keras.hyperparameters import override_hparams
from t2t_keras.training import trainer
from t2t_keras.training.backends.tensorflow import TensorFlowStep
from t2t_keras.training.checkpoints import Checkpoints
from t2t_keras.training.run_config import TrainOptions

# One step of a tiny model.
TINY = dict(num_layers=1, d_model=4, d_ff=4, num_heads=2, d_k=2, d_v=2, warmup_steps=10)
TINY |= dict(batch_tokens=60, microbatch_tokens=60, max_length=20, train_steps=1)
# Rates of nothing in effect, but not 0: other seeds change nothing, and since Keras draws a seed
# for each dropout that is not 0, the first weights stay the same when a rate is raised.
TINY |= dict(dropout=1e-9, attention_dropout=1e-9, relu_dropout=1e-9)

# What can be seen of a run's first update, from its data to its weights, and of its end. Whatever
# changes one of these changes most of those after it, so what counts is the first that differs.
ORDER = "examples parts shapes first_weights loss moments weights steps".split()
# Another value of each hyperparameter, by what differs first.
CHANGES = {
    "examples": dict(batch_tokens=40, max_length=8, batching="rows"),
    "parts": dict(microbatch_tokens=30),
    "shapes": dict(num_layers=2, d_model=6, d_ff=5, num_heads=1, d_k=3, d_v=3, pre_norm=True)
    | dict(num_encoder_layers=2, num_decoder_layers=2)
    | dict(positions="learned", feed_forward="parameter_attention")
    | dict(attention_bias=True, embedding_norm=True, source_bias=True, softmax_bias=True)
    | dict(share_embeddings="target", trainable=("encoder.*",)),
    "loss": dict(dropout=0.5, attention_dropout=0.5, relu_dropout=0.5)
    | dict(label_smoothing=0.3, self_attention_radius=1, compute_dtype="bfloat16")
    | dict(activation="gelu", norm_epsilon=1e-3, scale_embedding=False, start_id=1)
    | dict(sinusoids="concatenated", first_position=3, source_end=False),
    "moments": dict(adam_beta1=0.8, adam_beta2=0.9, clip_norm=1e-3),
    "weights": dict(learning_rate=3.0, warmup_steps=5, adam_epsilon=1e-2),
    "steps": dict(train_steps=2),
    # One replica has nobody to exchange gradients with; an average is beside what is trained.
    "nothing": dict(reduction_dtype="bfloat16", ema_decay=0.5),
}
# The same for other sets: what base does not have, or what another layer must obey itself.
OTHER_CHANGES = {
    "transformer_learned_positions": {"shapes": dict(max_positions=5)},
    "transformer_parameter_attention_a": {
        "shapes": dict(parameter_attention_heads=3),
        "loss": dict(relu_dropout=0.5),
    },
}
TRIED = {"transformer_base": CHANGES, **OTHER_CHANGES}


def numbers(variables):
    return np.concatenate([np.ravel(variable.numpy()) for variable in variables]).tolist()


class DifferentError(Exception):
    """Ends a run before its first update."""


@pytest.fixture
def observe(make_record, generated, tmp_path, monkeypatch, eagerly):
    """observe(hparams, seed, before, ...): trains a tiny run, of which nothing is kept.

    Returns what `ORDER` lists, and the evaluation; up to the first update alone if that differs
    from `before`, another run.
    """
    monkeypatch.setattr(Checkpoints, "save", lambda self, step, head: "")

    def observe(hparams, seed=1, before=None, data=generated, augment=(), schedule="train"):
        problem = dataclasses.replace(data.problem, augment=dict(augment))
        data = dataclasses.replace(data, problem=problem)
        config = dataclasses.replace(make_record(), hparams=hparams, random_seed=seed)
        config = config.with_data(data)
        strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
        step, seen = TensorFlowStep(config.make_model, hparams, strategy, seed), {}
        weights = step.model.trainable_variables
        moments_of = [*step.optimizer._momentums, *step.optimizer._velocities]

        def update(number, parts, *arguments):
            if number:
                return TensorFlowStep.update(step, number, parts, *arguments)
            rows = [
                (source[source != 0].tolist(), target[target != 0].tolist())
                for (part,) in parts
                for source, target in zip(part.source, part.target, strict=True)
            ]
            seen.update(examples=sorted(rows), parts=[part.source.shape for (part,) in parts])
            seen["shapes"] = [(weight.path, tuple(weight.shape)) for weight in weights]
            seen["first_weights"] = numbers(weights)
            if before and any(seen[name] != before[name] for name in seen):
                raise DifferentError
            sums = TensorFlowStep.update(step, number, parts, *arguments)
            moments = numbers(moments_of)
            seen.update(loss=float(sums["loss"]), moments=moments, weights=numbers(weights))
            return sums

        step.update = update
        directory = tmp_path / str(len(list(tmp_path.iterdir())))
        options = TrainOptions(schedule=schedule)
        with contextlib.suppress(DifferentError):
            result = trainer.train(config, data, directory, step, options)
            seen.update(steps=result.step, evaluation=result.evaluation)
        return seen

    return observe


@pytest.fixture
def words(tmp_path):
    """Data of words that have several divisions."""
    (tmp_path / "text").mkdir()
    known = "stast stest stost tast test tost".split()
    lines = [f"{one} {other}\n" for one in known for other in known] * 5
    for name in ("train.en", "train.de", "dev.en", "dev.de"):
        (tmp_path / "text" / name).write_text("".join(lines if "train" in name else lines[:9]))
    config = "source_language=en,target_language=de,vocab_kind=unigram,vocab_size=270"
    problem = make_problem("parallel_text", config)
    generate(problem, tmp_path / "data", tmp_path / "text")
    return open_generated(problem, tmp_path / "data")


def first_difference(one, other):
    """Returns the first of `ORDER` in which two runs differ, by whatever little."""
    return next((name for name in ORDER if one[name] != other[name]), "nothing")


@pytest.mark.parametrize("name", TRIED)
def test_each_hyperparameter_acts(observe, name):
    hparams = hyperparameters.hparams(name, TINY)
    before = observe(hparams)
    for kind, changes in TRIED[name].items():
        for field, value in changes.items():
            assert value != getattr(hparams, field)
            changed = observe(override_hparams(hparams, {field: value}), before=before)
            assert first_difference(before, changed) == kind, field


def test_recompute_alone_changes_nothing_but_the_last_bits(observe):
    hparams = hyperparameters.hparams("transformer_base", TINY)
    tried = [changes for kinds in TRIED.values() for changes in kinds.values()]
    own_names = {
        "recompute",
        "optimizer",
        "schedule",
        "loss",
    }  # Those are tried in test_own_names.py.
    own_names |= {"subword_sampling", "subword_nbest"}  # And those below.
    own_names |= {"lora_rank", "lora_alpha"}  # Those in test_trained_parts.py.
    own_names |= {"weight_decay"}  # And this one in test_optimizer.py.
    assert set(hparams.config()) == own_names.union(*tried), "each is tried"
    before, same = observe(hparams), observe(override_hparams(hparams, {"recompute": True}))
    assert first_difference(before, same) in ("moments", "weights", "nothing")
    for part in ("moments", "weights"):
        np.testing.assert_allclose(same[part], before[part], rtol=1e-5, atol=1e-7)


def test_training_examples_are_drawn_anew_and_the_dev_set_never(observe, words):
    hparams = hyperparameters.hparams("transformer_base", TINY)
    sampling = override_hparams(hparams, {"subword_sampling": 0.1})
    of_few = override_hparams(sampling, {"subword_nbest": 2})
    before, changed = observe(hparams, data=words), observe(sampling, data=words)
    for one, other in (
        (before, changed),
        (before, observe(hparams, data=words, augment={"typos": 1})),
        (changed, observe(of_few, data=words)),
    ):
        assert first_difference(one, other) == "examples"
    whole, varied = (
        observe(
            override_hparams(run_hparams, {"train_steps": 0}),
            data=words,
            augment=augment,
            schedule="train_and_evaluate",
        )["evaluation"]
        for run_hparams, augment in ((hparams, {}), (sampling, {"typos": 1}))
    )
    assert whole["loss"] == varied["loss"] > 0


def test_the_same_seed_gives_the_same_run_and_another_another(observe):
    # With everything random that a set has.
    hparams = hyperparameters.hparams("transformer_base_v3", TINY | dict(dropout=0.3))
    first = observe(hparams)
    assert first_difference(first, observe(hparams)) == "nothing"
    other = observe(hparams, seed=2, before=first)
    assert first_difference(first, other) == "examples"
    assert first["first_weights"] != other["first_weights"]
