"""Results of runs: scores, with everything needed to compute them again."""

import contextlib
import dataclasses
import datetime
import errno
import json
import math
import os
import sys
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from t2t_keras import hyperparameters
from t2t_keras.data.problem import Score
from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.environment import source_version
from t2t_keras.errors import UserError, translated_errors
from t2t_keras.io.terminal import printable
from t2t_keras.text.files import is_text
from t2t_keras.training.checkpoint_files import identity, step_of
from t2t_keras.training.cost import read_cost
from t2t_keras.training.run_config import RunConfig

# Entries of `Result.decode` that leave the translations to the model alone. All others, such as an
# engine, an ensemble or the flag of a plug-in, let something else affect them.
_OWN_SETTINGS = {*(field.name for field in dataclasses.fields(DecodeConfig)), "disturb"}
_MAX_LEVELS = 4  # nested lists and objects in a field


@dataclasses.dataclass(frozen=True)
class Result:
    """The scores of a run's checkpoint on a text, with everything needed to compute them again.

    Attributes:
      set: name of the hyperparameter set.
      problem: name of the problem.
      problem_config: all settings of the problem, by name.
      split: "dev", "test", or the name of the translated file; "dev.upper" if it was changed
        by --disturb=upper.
      hparams: the hyperparameters that differ from the set, by name.
      random_seed: the seed of the run.
      steps: optimizer steps of the checkpoint; None = unknown, here and below.
      checkpoint: SHA-256 of the weights, see `checkpoint_checksum`; "" = unknown. The step alone
        does not distinguish an average from the newest of its checkpoints.
      averaged: number of averaged checkpoints; 1 = not averaged.
      target_tokens: target tokens of the training, without padding.
      seconds: duration of the training; see `TrainingCost`.
      hardware: hardware of the training.
      commit: commit of the code that computed the score, or version of the package.
      decode: the decoding settings, by name; for the score of a file, the settings of scoring.
      loss: unsmoothed cross-entropy, natural logarithm, per token of the references.
      perplexity: perplexity per token (word piece) of the references.
      accuracy: share of the references' tokens that the model finds the likeliest, 0 .. 1.
      bleu: corpus BLEU, 0 .. 100.
      bleu_signature: sacreBLEU's description of the computation.
      chrf: corpus chrF2, 0 .. 100.
      f1: F1 of parses, 0 .. 100.
      main: the main value of the problem's score, {name: value}.
      conventions: BLEU under other conventions, by name: {"bleu": ..., "signature": ...}.
      metrics: values of registered metrics, by name.
      text: name of the translated text, with its edition, such as "newstest2014, full edition
        (3,003 lines)"; "" if the problem does not name it.
      date: time of scoring, UTC, such as 2017-06-12T17:57:34Z.
    """

    set: str
    problem: str
    split: str
    problem_config: dict = dataclasses.field(default_factory=dict)
    hparams: dict = dataclasses.field(default_factory=dict)
    random_seed: int | None = None
    steps: int | None = None
    checkpoint: str = ""
    averaged: int | None = None
    target_tokens: int | None = None
    seconds: float | None = None
    hardware: str = ""
    commit: str = ""
    decode: dict = dataclasses.field(default_factory=dict)
    loss: float | None = None
    perplexity: float | None = None
    accuracy: float | None = None
    bleu: float | None = None
    bleu_signature: str = ""
    chrf: float | None = None
    f1: float | None = None
    main: dict = dataclasses.field(default_factory=dict)
    conventions: dict = dataclasses.field(default_factory=dict)
    metrics: dict = dataclasses.field(default_factory=dict)
    text: str = ""
    date: str = ""

    @property
    def is_parsing(self) -> bool:
        """Whether it scores trees by F1, instead of translations."""
        return self.f1 is not None or "parsing" in self.problem

    @property
    def undisturbed_split(self) -> str:
        """The split without the name of a disturbance."""
        return self.split.removesuffix(f".{self.decode.get('disturb')}")

    @property
    def is_of_the_model_alone(self) -> bool:
        """Whether only the model contributed: no other model, engine or constraint on outputs."""
        return not any(value for name, value in self.decode.items() if name not in _OWN_SETTINGS)


def append_result(path: str | Path, result: Result) -> None:
    """Adds a result to a file, which is created if it is missing.

    Raises:
      UserError: the file cannot be written.
    """
    path = Path(path)
    text = json.dumps(dataclasses.asdict(result), ensure_ascii=False)
    # The name of a translated file need not be UTF-8; this file must be.
    line = text.encode("utf-8", errors="replace") + b"\n"
    failure = f"This result cannot be added to {path}"
    advice = f"Make room, or give another --results_file. The result: {line.decode().strip()}"
    with translated_errors(OSError, failure, advice, code="not_written"):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+b", buffering=0) as file:
            size = path.stat().st_size
            if size and os.pread(file.fileno(), 1, size - 1) != b"\n":
                # Ends an incomplete line, which readers skip.
                line = b"\n" + line
            # One call, so that the lines of several writers stay apart.
            written = file.write(line)
            os.fsync(file.fileno())
        if written < len(line):
            raise OSError(errno.ENOSPC, f"only {written} of {len(line)} bytes could be written")


def read_results(path: str | Path) -> list[Result]:
    """Returns the results in a file, in order; [] if there is no file.

    Reports and skips lines that are not results, such as a full disk leaves.

    Raises:
      UserError: the file cannot be read.
    """
    with translated_errors(OSError, f"{path} cannot be read", code="not_read"):
        try:
            content = Path(path).read_bytes()
        except FileNotFoundError:
            return []
    results = []
    for number, line in enumerate(content.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            results.append(_parse_result(json.loads(line)))
        except UserError:
            raise
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            text = f"{path}:{number} is not a result and is skipped: {error}"
            print(printable(text), file=sys.stderr)
    return results


def _parse_result(values: Any) -> Result:
    """Returns a result from a line of JSON; raises TypeError, ValueError or OverflowError."""
    result = Result(**values)
    for name, kind in typing.get_type_hints(Result).items():
        if not _fits(value := getattr(result, name), kind):
            raise ValueError(f"'{name}' cannot be {value!r}")
    if not all(_fits(value, float) for value in result.main.values()):
        raise ValueError(f"'main' cannot be {result.main!r}")
    for name, score in result.conventions.items():
        if not (
            isinstance(score, dict)
            and score.keys() == {"bleu", "signature"}
            and _fits(score["bleu"], float)
            and isinstance(score["signature"], str)
        ):
            raise ValueError(f"'conventions' cannot have {score!r} as '{name}'")
    return result


def _fits(value: Any, kind: Any) -> bool:
    if not _is_storable(value, _MAX_LEVELS):
        return False
    # JSON writes a whole number of seconds without a decimal point.
    return isinstance(value, kind) or (isinstance(value, int) and isinstance(float(value), kind))


def _is_storable(value: Any, levels: int) -> bool:
    """Returns whether a value of JSON can be written again, and has at most `levels` levels."""
    if isinstance(value, str):
        return is_text(value)
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, list):
        return levels > 0 and all(_is_storable(part, levels - 1) for part in value)
    # Python's JSON accepts NaN and Infinity, which are not scores.
    return value is None or math.isfinite(value)


# Fields of a `Result` for scores, and for the cost of the checkpoint.
_SCORE_FIELDS = ("bleu", "chrf", "f1")
_COST_FIELDS = ("target_tokens", "seconds", "hardware")


def run_result(
    config: RunConfig,
    checkpoint: str | Path,
    split: str,
    score: Score | None,
    decode: dict[str, Any],
    text: str = "",
    scalars: Mapping[str, float] | None = None,
) -> Result:
    """Returns the result of a checkpoint, with its cost; for the arguments see `Result`.

    `score` is what a problem's `score` method returned; it may have bleu, bleu_signature, chrf, f1,
    conventions and metrics; None = not scored. `scalars` are loss, perplexity and accuracy, if
    measured.
    """
    steps, averaged, folder = step_of(checkpoint), None, Path(checkpoint).parent
    cost = read_cost(checkpoint)
    # Without a readable run.json, only `averaged` is unknown.
    with contextlib.suppress(UserError):
        averaged = RunConfig.load(folder).averaged if checkpoint else None
    measured = {name: getattr(cost, name) for name in _COST_FIELDS} if cost else {}
    measured |= {name: round(value, 6) for name, value in (scalars or {}).items()}
    return Result(
        set=config.hparams_set,
        problem=config.problem.name,
        problem_config=config.problem.config(),
        split=split,
        text=text,
        hparams=hyperparameters.changed_hparams(config.hparams, config.hparams_set),
        random_seed=config.random_seed,
        steps=steps,
        checkpoint=checkpoint_checksum(checkpoint),
        averaged=averaged,
        commit=source_version(),
        decode=decode,
        **measured,
        **score_fields(score),
    )


def checkpoint_checksum(path: str | Path) -> str:
    """Returns the digest of a checkpoint's arrays, "" if the checkpoint is gone."""
    with contextlib.suppress(UserError):
        return identity(path)["digest"]
    return ""


def score_fields(score: Score | None) -> dict[str, Any]:
    """Returns the fields of a `Result` that a score fills, with the current date."""
    return {
        "bleu_signature": getattr(score, "bleu_signature", ""),
        **{name: round(getattr(score, name), 3) for name in _SCORE_FIELDS if hasattr(score, name)},
        "main": {name: round(value, 3) for name, value in ([score.main] if score else ())},
        "conventions": {
            name: {"bleu": round(convention_score.bleu, 3), "signature": convention_score.signature}
            for name, convention_score in getattr(score, "conventions", {}).items()
        },
        "metrics": dict(getattr(score, "metrics", {})),
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
