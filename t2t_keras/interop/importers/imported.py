"""Reads a model of another toolkit, and writes it as a run."""

import dataclasses
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from t2t_keras import hyperparameters
from t2t_keras.data.problem import Problem
from t2t_keras.errors import UserError, shorten, translated_errors
from t2t_keras.interop.importers import IMPORTERS
from t2t_keras.text.tokenizer import Tokenizer, vocabulary_settings
from t2t_keras.training.checkpoints import assign_weights, write_run
from t2t_keras.training.run_config import RunConfig

_DAMAGE_ERRORS = (ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError)


@dataclasses.dataclass(frozen=True)
class Imported:
    """A model of another toolkit, converted to this library's names and layout.

    Attributes:
      hparams: values that differ from the paper's base model, by name.
      weights: arrays by the path of the weight in `Transformer`, such as
        "encoder_0/self_attention/query/kernel".
      tokenizer: the vocabulary; embeddings have a row for each of its ids, in order.
      steps: number of training steps; 0 = unknown.
    """

    hparams: Mapping[str, Any]
    weights: Mapping[str, np.ndarray]
    tokenizer: Tokenizer
    steps: int = 0


def read_model(
    toolkit: str,
    model: str | Path,
    languages: tuple[str, str],
    vocabulary: str | Path = "",
    target_space: int | None = None,
    changes: Mapping[str, Any] | None = None,
) -> Imported:
    """Reads a toolkit's model; the importer's docstring lists the files that it needs.

    Args:
      toolkit: name of a registered importer, such as "tensor2tensor".
      model: its folder or checkpoint.
      languages: codes of source and target.
      vocabulary: comma-separated files, see the importer; "" = the files next to the model.
      target_space: see `read_tensor2tensor`.
      changes: hyperparameters that override or complete those in the files.

    Raises:
      UserError: a file is missing or damaged, the model cannot be represented, or the importer
        does not accept an argument.
    """
    importer = IMPORTERS[toolkit]
    accepted = inspect.signature(importer).parameters
    for name, value in {"vocabulary": vocabulary, "target_space": target_space}.items():
        if name not in accepted and value not in ("", None):
            raise UserError(
                f"Models of {toolkit} need no {name}, got {value}. Leave it out.",
                code="bad_flags",
            )
    options = dict(
        languages=languages, vocabulary=vocabulary, target_space=target_space, changes=changes
    )
    text = f"{model} is not a valid model of {toolkit}"
    advice = f"Copy it again, or save it again with {toolkit}."
    # Invalid shapes and values may fail anywhere.
    with translated_errors(_DAMAGE_ERRORS, text, advice, code="damaged_model"):
        imported = importer(model, **{name: options[name] for name in options if name in accepted})
    return dataclasses.replace(imported, hparams={**imported.hparams, **(changes or {})})


def make_run(imported: Imported, problem: Problem, output_dir: str | Path, origin: str) -> str:
    """Writes a run with one checkpoint: the imported weights.

    Args:
      imported: the model.
      problem: defines the languages and metrics.
      output_dir: folder to write the run to; must not contain a run.
      origin: path of the model, for messages.

    Returns:
      The path of the checkpoint.

    Raises:
      UserError: a weight is missing, unused or of another shape, or `output_dir` contains a run.
    """
    hparams = hyperparameters.hparams("transformer_base", imported.hparams)
    config = RunConfig(problem, hparams, tokenizer=imported.tokenizer, averaged=None)
    _check_depths(imported.weights, hparams.depths(), origin)
    model = config.make_model(will_load=True)
    assign_weights(model, imported.weights, origin)
    weights = {name: array.astype(np.float32) for name, array in imported.weights.items()}
    checkpoint = write_run("t2t-import", config, output_dir, weights, imported.steps)
    print(f"{checkpoint} has the {model.count_params():,} weights of {origin}.")
    print(
        f"To train it further, make data with --problem_config="
        f"{vocabulary_settings(output_dir, imported.tokenizer)}, then train with "
        f"--warm_start_from={output_dir} --hparams_set=auto"
    )
    return checkpoint


def _check_depths(weights: Mapping[str, np.ndarray], depths: tuple[int, int], origin: str) -> None:
    """Raises `UserError` if settings and weights have different numbers of layers."""
    for side, depth in zip(("encoder", "decoder"), depths, strict=True):
        layers = {path.partition("/")[0] for path in weights if path.startswith(f"{side}_")}
        count = len(layers - {f"{side}_norm"})
        if count != depth:
            raise UserError(
                f"{origin} cannot be imported: its settings have {depth:,} {side} layers, its "
                f"weights {count:,}. Copy both again.",
                code="damaged_model",
            )


class Settings:
    """The settings of another toolkit's model; an importer must represent or refuse each one.

    Args:
      values: settings by name.
      origin: file of the settings, for errors.
    """

    def __init__(self, values: Mapping[str, Any], origin: str):
        self._values, self.origin = values, origin

    def get(self, name: str, default: Any = None) -> Any:
        """Returns the value of a setting."""
        return self._values.get(name, default)

    def get_required(self, name: str) -> Any:
        """Returns the value of a setting; raises `UserError` if it is missing."""
        if self._values.get(name) is None:
            raise UserError(
                f"{self.origin}: expected a value of {name}, got none.", code="missing_setting"
            )
        return self._values[name]

    def get_allowed(self, name: str, *allowed: Any) -> Any:
        """Returns the value of a setting; if missing, the first allowed value.

        Raises:
          UserError: the value is not allowed, as it changes what the model computes.
        """
        value = self._values.get(name, allowed[0])
        if value not in allowed:
            expected = " or ".join(map(repr, allowed))
            raise UserError(
                f"{self.origin}: {name}={shorten(value)} cannot be represented here; expected "
                f"{expected}.",
                code="not_supported",
            )
        return value
