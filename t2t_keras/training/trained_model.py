"""Models with the weights of trained runs, and which checkpoint those come from."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras

from t2t_keras.data.problem import Problem
from t2t_keras.environment import expanded
from t2t_keras.errors import UserError
from t2t_keras.hyperparameters import HParams
from t2t_keras.text.tokenizer import Tokenizer, same_vocabulary
from t2t_keras.training.checkpoints.names import checkpoint_at, named_alternative
from t2t_keras.training.checkpoints.run_checkpoints import (
    assign_weights,
    load_weights,
    read_weights,
)
from t2t_keras.training.fewer_layers import fewer_layers
from t2t_keras.training.other_vocabulary import adapted_weights
from t2t_keras.training.run_config import RunConfig


@dataclasses.dataclass(frozen=True)
class TrainedModel:
    """A trained model with what is needed to use it; unpacks as `model, tokenizer`.

    Attributes:
      model: the Keras model, a `Transformer` unless the run has another one.
      tokenizer: its vocabulary.
      problem: what it was trained for, as `Translator` takes it.
      hparams: what it was trained with.
      checkpoint: the path of the checkpoint.
    """

    model: keras.Model
    tokenizer: Tokenizer
    problem: Problem
    hparams: HParams
    checkpoint: str

    def __iter__(self) -> Iterator[Any]:
        return iter((self.model, self.tokenizer))


def load_model(path: str | Path, weights_dtype: str = "float32") -> TrainedModel:
    """Loads the model of a run, to be called, compiled, trained, translated with or exported.

    Args:
      path: the directory of a run, whose newest checkpoint is taken, or of its `best/`; or a
        checkpoint in one.
      weights_dtype: type of the weights and of all computation, as for `from_hparams`; one other
        than float32 is not for training.

    Raises:
      UserError: there is no such run or checkpoint, or it cannot be read.

    Example:
      >>> model, tokenizer = load_model("runs/base")
    """
    checkpoint = checkpoint_at(expanded(path))
    record = RunConfig.load(Path(checkpoint).parent)
    model = record.make_model(weights_dtype, loaded=True)
    load_weights(model, checkpoint)
    return TrainedModel(model, record.vocabulary, record.problem, record.hparams, checkpoint)


def load_ensemble_model(path: str | Path, tokenizer: Tokenizer, weights_dtype: str) -> keras.Model:
    """Loads a model as `load_model`, to translate with others of this vocabulary.

    Raises:
      UserError: there is no such run or checkpoint, or it has another vocabulary.
    """
    model, own = load_model(path, weights_dtype)
    if own.checksum != tokenizer.checksum:
        raise UserError(
            f"{path} has a different vocabulary: expected {tokenizer.vocab_size:,} pieces with "
            f"SHA-256 {tokenizer.checksum[:12]}, got {own.vocab_size:,} with {own.checksum[:12]}. "
            f"Train the runs of an ensemble on the same data.",
            code="other_vocabulary",
        )
    return model


# What weights mean, where their shapes do not show it.
_MEANINGS = (
    *("num_heads", "activation", "positions", "sinusoids", "first_position", "start_id"),
    *("scale_embedding", "norm_epsilon", "source_end"),
)


def other_meanings(
    ours: HParams, theirs: HParams, is_adapted: bool = False
) -> tuple[str, str] | None:
    """Returns what gives a run's weights another meaning than another's, as both have it.

    Args:
      ours: hyperparameters of the run.
      theirs: those of the other.
      is_adapted: whether the other has another vocabulary, whose ids say nothing of this one's.

    Returns:
      Settings, as "num_heads=4,activation=relu", here and there; None if no meaning differs.
    """
    here, there = ours.config(), theirs.config()
    compared = [name for name in _MEANINGS if name != "start_id" or not is_adapted]
    wrong = [name for name in compared if here[name] != there[name]]
    given, needed = (
        ",".join(f"{name}={values[name]}" for name in wrong) for values in (here, there)
    )
    return (given, needed) if wrong else None


def load_first_weights(
    model: keras.Model,
    config: RunConfig,
    source: str,
    adapt_vocabulary: bool = False,
    drop_layers: bool = False,
) -> None:
    """Loads the weights of another run, with which a training starts.

    Args:
      model: what is trained.
      config: the run that begins.
      source: the other, or a checkpoint in it.
      adapt_vocabulary: whether it may have another vocabulary; see `adapted_weights`.
      drop_layers: whether it may have more layers; see `fewer_layers`.

    Raises:
      UserError: there is none, or its ids or weights mean something else than those of `config`.
    """
    path = checkpoint_at(source)
    directory = Path(path).parent
    is_adapted = False
    if RunConfig.exists(directory):
        other = RunConfig.load(directory)
        ours, theirs = config.vocabulary.checksum, other.vocabulary.checksum
        is_adapted = adapt_vocabulary and theirs != ours
        if theirs != ours and not is_adapted:
            raise UserError(
                f"--warm_start_from={source}: expected vocabulary {ours[:12]}, that of this data, "
                f"got {theirs[:12]}. Make the data with "
                f"--problem_config={same_vocabulary(directory, other.vocabulary)}; or give "
                f"--adapt_vocabulary, and new pieces begin as the means of old ones.",
                code="other_vocabulary",
            )
        if differ := other_meanings(config.hparams, other.hparams, is_adapted):
            given, needed = differ
            raise UserError(
                f"--warm_start_from={source}: its weights have another meaning with {given}. Give "
                f"--hparams={needed}.",
                code="other_model",
            )
    elif adapt_vocabulary or drop_layers:
        flag, what = "adapt_vocabulary", "vocabulary"
        if drop_layers:
            flag, what = "drop_layers", "hyperparameters"
        raise UserError(
            f"--{flag}: expected a run, with its {what}, in {directory}.", code="no_run"
        )
    with named_alternative(path):
        weights = read_weights(path)
    if is_adapted:
        weights = adapted_weights(weights, model, config, other, path)
    elif drop_layers:
        weights = fewer_layers(weights, config, other, path)
    assign_weights(model, weights, path)
    print(f"Starting from the weights of {path}.")
