"""The models of trained runs, with their vocabulary."""

from collections.abc import Sequence
from pathlib import Path

from t2t_keras.data.tokenizer import Tokenizer
from t2t_keras.errors import UserError
from t2t_keras.training.checkpoints import load_weights, newest_checkpoint
from t2t_keras.training.run_record import RunRecord


def load_ensemble(
    output_dir: str | Path,
    checkpoint_path: str | Path | None = None,
    others: Sequence[str | Path] = (),
) -> tuple[list, Tokenizer]:
    """Loads a run's model, and those of others that translate with it.

    Args:
      output_dir: the run's directory.
      checkpoint_path: a checkpoint's path prefix; default: the run's newest.
      others: each the directory of a run, or the path prefix of a checkpoint in one.

    Returns:
      The models and the vocabulary that they share.

    Raises:
      UserError: there is no run or no checkpoint, it cannot be read, or the vocabularies differ.
    """
    model, tokenizer = _load(Path(output_dir), checkpoint_path)
    models = [model]
    for path in map(Path, others):
        is_run = RunRecord.exists(path)
        model, vocabulary = _load(path, None) if is_run else _load(path.parent, path)
        if vocabulary.checksum != tokenizer.checksum:
            raise UserError(
                f"{path} was trained with another vocabulary ({vocabulary.vocab_size:,} pieces, "
                f"SHA-256 {vocabulary.checksum[:12]}) than {output_dir} "
                f"({tokenizer.vocab_size:,} pieces, {tokenizer.checksum[:12]}). An ensemble needs "
                f"runs over the same generated data."
            )
        models.append(model)
    return models, tokenizer


def _load(output_dir: Path, checkpoint_path: str | Path | None) -> tuple:
    record = RunRecord.load(output_dir)
    model = record.make_model()
    load_weights(model, checkpoint_path or newest_checkpoint(output_dir))
    return model, record.tokenizer
