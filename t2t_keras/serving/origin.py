"""Where an export comes from, as its README says it: the run, its scores, what storing costs."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from t2t_keras.data.generated import open_generated
from t2t_keras.decoding.translation import one_line
from t2t_keras.decoding.translator import Translator
from t2t_keras.errors import UserError
from t2t_keras.serving.stored_weights import rounded_weights
from t2t_keras.tables.results import Result, read_results
from t2t_keras.training.checkpoint_names import step_or_none
from t2t_keras.training.run_record import RunRecord


@dataclasses.dataclass(frozen=True)
class Origin:
    """What an export was made from.

    Attributes:
      problem: its name; "" = not known, as below.
      hparams_set: name of the hyperparameter set.
      steps: optimizer steps of the checkpoint.
      data: checksum of the training data.
      scores: a line for each score that is known.
      example: a sentence in the source language.
      outputs: what translations are, where they are not text as users want it.
    """

    problem: str = ""
    hparams_set: str = ""
    steps: int | None = None
    data: str = ""
    scores: tuple[str, ...] = ()
    example: str = "A sentence."
    outputs: str = ""


def run_origin(
    record: RunRecord, checkpoint: str | Path, scores: Sequence[str], example: str = ""
) -> Origin:
    """Returns the origin of a model that was trained here.

    Args:
      record: of the run.
      checkpoint: which of its checkpoints.
      scores: a line for each score that is known.
      example: a sentence in the source language; "" = none at hand.
    """
    return Origin(
        problem=record.problem.name,
        hparams_set=record.hparams_set,
        steps=step_or_none(checkpoint),
        data=record.data,
        scores=tuple(scores),
        outputs=record.problem.unfinished,
        **({"example": example} if example else {}),
    )


def recorded_scores(record: RunRecord, checkpoint: str | Path, path: str | Path) -> list[str]:
    """Returns a line for each score of the checkpoint in a file of results; none without a file.

    Raises:
      UserError: the file cannot be read.
    """
    steps = step_or_none(checkpoint)
    return [
        f"{result.split}: {_scored(result)}"
        for result in read_results(path)
        if (result.bleu, result.f1) != (None, None)
        and steps is not None
        and (result.set, result.problem, result.random_seed, result.steps)
        == (record.hparams_set, record.problem.name, record.random_seed, steps)
    ]


def _scored(result: Result) -> str:
    if result.bleu is None:
        return f"{result.f1:.2f} F1"
    return f"{result.bleu:.2f} BLEU ({result.bleu_signature})"


def dev_text(record: RunRecord, data_dir: str) -> tuple[list[str], list[str]] | None:
    """Returns sources and references of the problem's dev set, None where they are not at hand."""
    if not (data_dir or record.data_dir):
        return None
    try:
        return open_generated(record.problem, data_dir or record.data_dir).text("dev")
    except UserError:
        # Whoever names a directory wants it read; the run's may be on another machine.
        if data_dir:
            raise
        return None


def measured_loss(
    translator: Translator, record: RunRecord, dtype: str, text: tuple[list[str], list[str]]
) -> str:
    """Translates the dev set with exact and with stored weights, and says what that changes.

    Args:
      translator: what is exported.
      record: of its run, whose problem scores.
      dtype: how weights are stored.
      text: sources and references.

    Returns:
      A line with both scores and the difference.
    """
    sources, references = text
    weights = [weight for model in translator.models for weight in model.weights]

    def score():
        lines = [one_line(translation.text) for translation in translator.translate(sources)]
        return record.problem.score(lines, references, sources)

    name, exact = (found := score()).main
    with rounded_weights(weights, dtype):
        _, stored = score().main
    signature = f"; {found.bleu_signature}" if name == "bleu" else ""
    return (
        f"dev: {stored:.2f} {name.upper()} with weights as {dtype}, {exact:.2f} as float32 "
        f"({stored - exact:+.2f}{signature})"
    )
