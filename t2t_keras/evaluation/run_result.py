"""The result of a run: its score, with what made it."""

import contextlib
import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from t2t_keras import registry
from t2t_keras.environment import source_version
from t2t_keras.errors import UserError
from t2t_keras.evaluation.results import Result
from t2t_keras.training.checkpoints.names import identity, step_of
from t2t_keras.training.cost import read_cost
from t2t_keras.training.run_config import RunConfig

# The scores that a result records.
_SCORES = ("bleu", "chrf", "f1")
# The costs of the checkpoint that it records as well.
_COSTS = ("target_tokens", "seconds", "hardware")


def run_result(
    record: RunConfig,
    checkpoint: str | Path,
    split: str,
    score,
    decode: dict[str, Any],
    text: str = "",
    scalars: Mapping[str, float] | None = None,
) -> Result:
    """Returns what `append_result` adds to a file; `split`, `decode` and `text` are as of `Result`.

    Beside the checkpoint stands what it cost, and of how many it is the mean. The score is as a
    problem's `score` returns it, with what it has of bleu, bleu_signature, chrf, f1, conventions
    and metrics; None = not scored. `scalars` are loss, perplexity and accuracy, if measured.
    """
    steps, averaged, folder = step_of(checkpoint), None, Path(checkpoint).parent
    cost = read_cost(checkpoint)
    # Where the record is not there or cannot be read, the score is there all the same.
    with contextlib.suppress(UserError):
        averaged = RunConfig.load(folder).averaged if checkpoint else None
    return Result(
        set=record.hparams_set,
        problem=record.problem.name,
        problem_config=record.problem.config(),
        split=split,
        text=text,
        hparams=registry.changed_hparams(record.hparams, record.hparams_set),
        random_seed=record.random_seed,
        steps=steps,
        checkpoint=checkpoint_checksum(checkpoint),
        averaged=averaged,
        **({name: getattr(cost, name) for name in _COSTS} if cost else {}),
        commit=source_version(),
        decode=decode,
        **{name: round(value, 6) for name, value in (scalars or {}).items()},
        **score_fields(score),
    )


def checkpoint_checksum(path: str | Path) -> str:
    """Returns the digest of a checkpoint's arrays, "" where there is none any more."""
    with contextlib.suppress(UserError):
        return identity(path)["digest"]
    return ""


def score_fields(score) -> dict[str, Any]:
    """Returns the fields of a `Result` that a score fills, with the date of now."""
    return {
        "bleu_signature": getattr(score, "bleu_signature", ""),
        **{name: round(getattr(score, name), 3) for name in _SCORES if hasattr(score, name)},
        "main": {name: round(value, 3) for name, value in ([score.main] if score else ())},
        "conventions": {
            name: {"bleu": round(each.bleu, 3), "signature": each.signature}
            for name, each in getattr(score, "conventions", {}).items()
        },
        "metrics": dict(getattr(score, "metrics", {})),
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
