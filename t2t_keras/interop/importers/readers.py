"""Which reader belongs to which toolkit."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from t2t_keras.errors import UserError, brief
from t2t_keras.interop.importers.fairseq import read_fairseq
from t2t_keras.interop.importers.imported import Imported
from t2t_keras.interop.importers.marian import read_huggingface
from t2t_keras.interop.importers.marian_npz import read_marian
from t2t_keras.interop.importers.opennmt_tf import read_opennmt_tf
from t2t_keras.interop.importers.tensor2tensor import read_tensor2tensor

_DAMAGE = (ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError)


def read_model(
    toolkit: str,
    model: str | Path,
    languages: tuple[str, str],
    vocabulary: str | Path = "",
    target_space: int | None = None,
    changes: Mapping[str, Any] | None = None,
) -> Imported:
    """Reads the model of a toolkit; see the reader of each for what it needs.

    Args:
      toolkit: "tensor2tensor", "marian", "huggingface", "fairseq" or "opennmt_tf".
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
    if target_space is not None and toolkit != "tensor2tensor":
        raise UserError(
            f"target_space is tensor2tensor's, and has no effect with {toolkit}.", code="bad_flags"
        )
    own_folder = toolkit == "huggingface" or (
        toolkit == "marian" and (Path(model) / "config.json").exists()
    )
    if own_folder and vocabulary:
        raise UserError(
            f"{model}: source.spm, target.spm and vocab.json in it are read; {vocabulary} cannot "
            f"replace them. Put it there under its name, and give no vocabulary.",
            code="bad_flags",
        )
    try:
        imported = _read(toolkit, own_folder, model, languages, vocabulary, target_space, changes)
    except _DAMAGE as error:
        # Shapes and values that no toolkit writes fail anywhere.
        reason = f"{type(error).__name__}: {brief(error)}"
        raise UserError(
            f"{model} is not as {toolkit} writes it ({reason}). Copy the model again, or save it "
            f"again with {toolkit}.",
            code="damaged_model",
        ) from error
    return dataclasses.replace(imported, hparams={**imported.hparams, **(changes or {})})


def _read(
    toolkit: str,
    own_folder: bool,
    model: str | Path,
    languages: tuple[str, str],
    vocabulary: str | Path,
    target_space: int | None,
    changes: Mapping[str, Any] | None,
) -> Imported:
    if toolkit == "tensor2tensor":
        return read_tensor2tensor(model, vocabulary, target_space)
    if toolkit == "fairseq":
        return read_fairseq(model, languages, vocabulary)
    if toolkit == "opennmt_tf":
        return read_opennmt_tf(model, vocabulary, changes)
    return read_huggingface(model) if own_folder else read_marian(model, vocabulary)
