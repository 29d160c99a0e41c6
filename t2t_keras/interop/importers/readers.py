"""Readers of models of other toolkits, by the toolkit's name."""

import dataclasses
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from t2t_keras.errors import UserError, brief
from t2t_keras.settings import Registry

if TYPE_CHECKING:
    from t2t_keras.interop.importers.imported import Imported

# Functions of a model's path that return what it has as `Imported`. They may also take
# `languages`, `vocabulary`, `target_space` and `changes`, as `read_model` does.
IMPORTERS = Registry("importer")
_DAMAGE = (ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError)


def read_model(
    toolkit: str,
    model: str | Path,
    languages: tuple[str, str],
    vocabulary: str | Path = "",
    target_space: int | None = None,
    changes: Mapping[str, Any] | None = None,
) -> "Imported":
    """Reads the model of a toolkit; see the reader of each for what it needs.

    Args:
      toolkit: a registered importer, such as "tensor2tensor".
      model: its folder or checkpoint.
      languages: of source and target.
      vocabulary: a file, or several with a comma between, as the reader says; "" = those beside
        the model.
      target_space: see `read_tensor2tensor`.
      changes: hyperparameters that replace what was found, or that the files do not tell.

    Raises:
      UserError: a file is missing or damaged, the model cannot be represented, or something is
        given that its reader does not take.
    """
    read = IMPORTERS[toolkit]
    taken = inspect.signature(read).parameters
    for name, value in {"vocabulary": vocabulary, "target_space": target_space}.items():
        if name not in taken and value not in ("", None):
            raise UserError(
                f"{toolkit} takes no {name}, and {value} would have no effect. Leave it out.",
                code="bad_flags",
            )
    options = dict(
        languages=languages, vocabulary=vocabulary, target_space=target_space, changes=changes
    )
    try:
        imported = read(model, **{name: options[name] for name in options if name in taken})
    except _DAMAGE as error:
        # Shapes and values that no toolkit writes fail anywhere.
        reason = f"{type(error).__name__}: {brief(error)}"
        raise UserError(
            f"{model} is not as {toolkit} writes it ({reason}). Copy the model again, or save it "
            f"again with {toolkit}.",
            code="damaged_model",
        ) from error
    return dataclasses.replace(imported, hparams={**imported.hparams, **(changes or {})})
