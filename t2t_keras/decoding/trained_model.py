"""The models of trained runs."""

from collections.abc import Sequence
from pathlib import Path

from t2t_keras.data.tokenizer import Tokenizer
from t2t_keras.errors import UserError
from t2t_keras.training.checkpoints import load_weights, newest_checkpoint
from t2t_keras.training.run_record import RunRecord


def load_models(paths: Sequence[str | Path], tokenizer: Tokenizer) -> list:
    """Loads models of one vocabulary, which can translate together.

    Args:
      paths: each the directory of a run, whose newest checkpoint is taken, or the path prefix of a
        checkpoint in one.
      tokenizer: the vocabulary.

    Raises:
      UserError: there is no run or no checkpoint, it cannot be read, or its vocabulary is another
        one.
    """
    models = []
    for path in map(Path, paths):
        is_run = RunRecord.exists(path)
        record = RunRecord.load(path if is_run else path.parent)
        if record.tokenizer.checksum != tokenizer.checksum:
            raise UserError(
                f"{path} was trained with another vocabulary ({record.tokenizer.vocab_size:,} "
                f"pieces, SHA-256 {record.tokenizer.checksum[:12]}) than the run that it shall "
                f"translate with ({tokenizer.vocab_size:,} pieces, {tokenizer.checksum[:12]}). An "
                f"ensemble needs runs over the same generated data."
            )
        model = record.make_model()
        load_weights(model, newest_checkpoint(path) if is_run else path)
        models.append(model)
    return models
