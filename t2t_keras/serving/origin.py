"""Where an export comes from, as its README says it: the run, its scores, what storing costs."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from t2t_keras.data.generated import open_generated
from t2t_keras.decoding.translation import score_of
from t2t_keras.decoding.translator import Translator
from t2t_keras.errors import UserError
from t2t_keras.serving.stored_weights import rounded_weights
from t2t_keras.tables.results import Result, read_results
from t2t_keras.tables.run_result import checkpoint_checksum
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

    Prints how many scores are left out although they have the same problem, set and step: another
    run may have them too, and an average has the step of its newest source.

    Raises:
      UserError: the file cannot be read.
    """
    wanted = record.problem.name, record.hparams_set, step_or_none(checkpoint)
    alike = [
        result
        for result in read_results(path)
        if (result.problem, result.set, result.steps) == wanted
        and (result.bleu, result.f1) != (None, None)
    ]
    checksum = checkpoint_checksum(checkpoint)
    found = [
        result for result in alike if result.checkpoint == checksum and result.is_of_the_model_alone
    ]
    if left_out := len(alike) - len(found):
        print(
            f"{path}: {left_out:,} scores of the same set and step are left out: of other weights, "
            f"of weights that are not named, or with an ensemble, forbidden words or prefixes.",
            flush=True,
        )
    return [f"{result.text or result.split}: {_scored(result)}" for result in found]


def _scored(result: Result) -> str:
    if result.bleu is None:
        return f"{result.f1:.2f} F1{_how(result.decode)}"
    scores = [f"{result.bleu:.2f} BLEU{_how(result.decode, _sacrebleu(result.bleu_signature))}"]
    scores += [
        _by_convention(convention, each["bleu"], each["signature"])
        for convention, each in result.conventions.items()
    ]
    return ", ".join(scores)


def _sacrebleu(signature: str) -> str:
    return f"sacrebleu {signature}" if signature else ""


def _by_convention(convention: str, bleu: float, signature: str) -> str:
    return f"{bleu:.2f} BLEU ({convention} {signature})"


def _how(settings: Mapping[str, Any], *more: str) -> str:
    """Returns in brackets what a score depends on: the search, and what else there is."""
    parts = []
    if settings.get("samples"):
        parts.append(f"sampled, seed {settings.get('seed')}")
    elif "beam_size" in settings and "alpha" in settings:
        parts.append(f"beam {settings['beam_size']}, alpha {settings['alpha']}")
    parts += [each for each in more if each]
    return f" ({'; '.join(parts)})" if parts else ""


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


def measured_score(
    translator: Translator, record: RunRecord, dtype: str, text: tuple[list[str], list[str]]
) -> str:
    """Translates the dev set and says its score, and what weights that are not exact change.

    Args:
      translator: what is exported.
      record: of its run, whose problem scores.
      dtype: how weights are stored.
      text: sources and references.

    Returns:
      A line with the score, under every convention of the problem; where weights are not stored as
      float32, the first score with both and the difference.
    """
    sources, references = text
    dev = record.problem.text_name("dev", len(references)) or "dev"
    weights = [weight for model in translator.models for weight in model.weights]

    def score():
        return score_of(record.problem, translator.translate(sources), references, sources)

    name, exact = (found := score()).main
    signature = _sacrebleu(found.bleu_signature) if name == "bleu" else ""
    settings = dataclasses.asdict(translator.config)
    if dtype == "float32":
        others = (
            f", {_by_convention(each.convention, each.bleu, each.signature)}"
            for each in getattr(found, "conventions", ())
        )
        return f"{dev}: {exact:.2f} {name.upper()}{_how(settings, signature)}{''.join(others)}"
    with rounded_weights(weights, dtype):
        _, stored = score().main
    return (
        f"{dev}: {stored:.2f} {name.upper()} with weights as {dtype}, {exact:.2f} as float32"
        f"{_how(settings, f'{stored - exact:+.2f}', signature)}"
    )
