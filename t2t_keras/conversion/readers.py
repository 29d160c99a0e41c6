"""Which reader belongs to which toolkit."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from t2t_keras.conversion.fairseq import read_fairseq
from t2t_keras.conversion.imported import Imported
from t2t_keras.conversion.marian import read_huggingface
from t2t_keras.conversion.marian_npz import read_marian
from t2t_keras.conversion.opennmt_tf import read_opennmt_tf
from t2t_keras.conversion.tensor2tensor import read_tensor2tensor
from t2t_keras.errors import UserError


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
        raise UserError(f"target_space is tensor2tensor's, and has no effect with {toolkit}.")
    own_folder = toolkit == "huggingface" or (
        toolkit == "marian" and (Path(model) / "config.json").exists()
    )
    if own_folder and vocabulary:
        raise UserError(
            f"{model}: source.spm, target.spm and vocab.json in it are read; {vocabulary} cannot "
            f"replace them. Put it there under its name, and give no vocabulary."
        )
    if toolkit == "tensor2tensor":
        found = read_tensor2tensor(model, vocabulary, target_space)
    elif toolkit == "fairseq":
        found = read_fairseq(model, languages, vocabulary)
    elif toolkit == "opennmt_tf":
        found = read_opennmt_tf(model, vocabulary, changes)
    elif own_folder:
        found = read_huggingface(model)
    else:
        found = read_marian(model, vocabulary)
    return dataclasses.replace(found, hparams={**found.hparams, **(changes or {})})
