"""Checkpoints of trained runs, and models with their weights."""

from pathlib import Path
from typing import Any

from t2t_keras.errors import UserError
from t2t_keras.text.tokenizer import Tokenizer
from t2t_keras.training.checkpoints.names import TENSORFLOW_SUFFIX, existing_checkpoint
from t2t_keras.training.checkpoints.tensorflow import load_weights, newest_checkpoint
from t2t_keras.training.run_config import RunConfig


def checkpoint_at(path: str | Path) -> str:
    """Returns the path prefix of a run's newest checkpoint, or of one given, also with ".index"."""
    if Path(path).is_dir():
        return newest_checkpoint(path)
    return str(path).removesuffix(TENSORFLOW_SUFFIX)


def identity(checkpoint: str | Path) -> dict[str, Any]:
    """Returns what tells a checkpoint, which must exist, from one later written in its place."""
    path = existing_checkpoint(checkpoint, TENSORFLOW_SUFFIX)
    written = Path(f"{path}{TENSORFLOW_SUFFIX}").stat().st_mtime_ns
    return {"checkpoint": str(checkpoint), "written": written}


def load_model(path: str | Path, tokenizer: Tokenizer, weights_dtype: str):
    """Loads the model of a run or a checkpoint, to translate with others of this vocabulary.

    Raises:
      UserError: there is no such run or checkpoint, or it has another vocabulary.
    """
    record = RunConfig.load(path if Path(path).is_dir() else Path(path).parent)
    own = record.tokenizer
    if own.checksum != tokenizer.checksum:
        raise UserError(
            f"{path} has a different vocabulary: expected {tokenizer.vocab_size:,} pieces with "
            f"SHA-256 {tokenizer.checksum[:12]}, got {own.vocab_size:,} with {own.checksum[:12]}. "
            f"Train the runs of an ensemble on the same data."
        )
    model = record.make_model(weights_dtype)
    load_weights(model, checkpoint_at(path))
    return model
