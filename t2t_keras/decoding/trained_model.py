"""The models of trained runs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from t2t_keras.data.tokenizer import Tokenizer
from t2t_keras.errors import UserError
from t2t_keras.training.checkpoint_names import TENSORFLOW_SUFFIX, no_checkpoint
from t2t_keras.training.checkpoints import load_weights, newest_checkpoint
from t2t_keras.training.run_record import RunRecord


def checkpoint_at(path: str | Path) -> str:
    """Returns the path prefix of a checkpoint.

    Args:
      path: the directory of a run, whose newest checkpoint is meant; or a path prefix, also with
        the ".index" of the file's name.

    Raises:
      UserError: there is no checkpoint in the run.
    """
    if Path(path).is_dir():
        return newest_checkpoint(path)
    return str(path).removesuffix(TENSORFLOW_SUFFIX)


def identity(checkpoint: str | Path) -> dict[str, Any]:
    """Returns what tells a checkpoint from one that is later written under its name.

    Args:
      checkpoint: its path prefix.

    Raises:
      UserError: it is not there; those that are are named.
    """
    try:
        written = Path(f"{checkpoint}{TENSORFLOW_SUFFIX}").stat().st_mtime_ns
    except OSError:
        raise no_checkpoint(Path(checkpoint), TENSORFLOW_SUFFIX) from None
    return {"checkpoint": str(checkpoint), "written": written}


def load_models(
    paths: Sequence[str | Path], tokenizer: Tokenizer, weights_dtype: str = "float32"
) -> list:
    """Loads models of one vocabulary, which can translate together.

    Args:
      paths: each as `checkpoint_at` takes it.
      tokenizer: the vocabulary.
      weights_dtype: type of their weights.

    Raises:
      UserError: there is no run or no checkpoint, it cannot be read, or its vocabulary is another
        one.
    """
    models = []
    for path in map(Path, paths):
        record = RunRecord.load(path if path.is_dir() else path.parent)
        if record.tokenizer.checksum != tokenizer.checksum:
            raise UserError(
                f"{path} was trained with another vocabulary ({record.tokenizer.vocab_size:,} "
                f"pieces, SHA-256 {record.tokenizer.checksum[:12]}) than the run that it shall "
                f"translate with ({tokenizer.vocab_size:,} pieces, {tokenizer.checksum[:12]}). An "
                f"ensemble needs runs over the same generated data."
            )
        model = record.make_model(weights_dtype)
        load_weights(model, checkpoint_at(path))
        models.append(model)
    return models
