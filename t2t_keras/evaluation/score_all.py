"""The scores of translations of one text by one checkpoint after another, as the files come."""

import contextlib
import functools
import hashlib
import json
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from t2t_keras import registry
from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.files import first_hypotheses
from t2t_keras.errors import UserError
from t2t_keras.evaluation.bleu import TranslationScore
from t2t_keras.evaluation.score_log import ScoreLog
from t2t_keras.tables.results import Result
from t2t_keras.tables.run_result import score_fields
from t2t_keras.training.following import (
    NO_WAIT,
    Follower,
    Patience,
    files_by_name_and_step,
    first_found,
)

# The settings of decoding that say what stands in a line.
_FORM = ("return_beams", "write_beam_scores")


def score_all(
    translations_dir: str | Path,
    references: Sequence[str],
    score: Callable[[Sequence[str], Sequence[str]], TranslationScore],
    scored_by: dict[str, object],
    *,
    source: str = "",
    event_dir: str | Path = "",
    patience: Patience = NO_WAIT,
    min_steps: int = 0,
) -> list[int]:
    """Scores the files `<name>-<step>` of t2t-translate-all, in the order of their steps.

    The curves and the results, in results.jsonl, are in `event_dir`. A step that stands in the
    results, made with the same settings and scored against the same references in the same way, is
    not scored again. Of several hypotheses of a line the first is scored.

    Args:
      translations_dir: where the files are.
      references: line N is the reference of line N of each file.
      score: returns the score of hypotheses against references.
      scored_by: what `score` does, by name.
      source: the file that was translated, or its name; needed where there are several.
      event_dir: where the scores go; default: `translations_dir`.
      patience: how long to wait for further files.
      min_steps: earlier files are left alone.

    Returns:
      The steps that were scored now.

    Raises:
      UserError: there are no translations, or of several texts, or they are parses; a file cannot
        be read or written.
    """
    translations = functools.partial(_translations, translations_dir, Path(source).name)
    name = _only_name(first_found(translations, patience, "translation"), translations_dir)
    # There now: t2t-translate-all writes it before the first translation.
    made_by = _made_by(Path(translations_dir) / f"{name}.json")
    _refuse_unfinished(Path(translations_dir) / f"{name}-<step>", str(made_by.get("problem", "")))
    config = DecodeConfig(**{each: made_by[each] for each in _FORM if each in made_by})
    digests = {
        "references": _digest("\n".join(references)),
        "made_by": _digest(json.dumps(made_by, sort_keys=True)),
    }
    text = str(made_by.get("text", ""))
    kind = Result("", "", name, text=text, decode={**scored_by, **digests})
    log = ScoreLog(event_dir or translations_dir)
    before = log.steps_like(kind)
    follower = Follower(
        lambda: translations().get(name, {}),
        patience,
        what="translation",
        min_steps=min_steps,
        done=before,
    )
    scored = []
    with contextlib.closing(log):
        for step, path in follower:
            found = score(first_hypotheses(path, config), references)
            fields = {**vars(kind), **score_fields(found), "steps": step}
            log.add(Result(**fields), {"bleu": found.bleu, "chrf": found.chrf})
            print(f"{path}{f', {text}' if text else ''}:\n{found}", flush=True)
            scored.append(step)
    if not scored and not before:
        raise UserError(
            f"There are no translations {name}-<step> of at least {min_steps:,} steps in "
            f"{translations_dir}. --wait_minutes waits for them."
        )
    print(f"{log.results_file}: {len(scored) + len(before):,} translations.", flush=True)
    return scored


def _translations(directory: str | Path, name: str) -> dict[str, dict[int, str]]:
    """Returns the translations of a text, or of all ("") that there are, by name and step."""
    found = files_by_name_and_step(directory)
    return {each: found[each] for each in found if each == (name or each)}


def _made_by(path: Path) -> dict[str, object]:
    """Returns what t2t-translate-all says that it made the translations by; {} for other files."""
    try:
        return dict(json.loads(path.read_bytes()))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError) as error:
        raise UserError(f"{path} cannot be read ({error}). Translate again, or remove it.") from (
            error
        )


def _refuse_unfinished(files: Path, name: str) -> None:
    """Raises `UserError` where outputs are not text that BLEU can be told of, as parses."""
    try:
        problem = registry.problem(name)
    except UserError:
        # Files of another program, or of a problem that --t2t_usr_dir would import.
        return
    if problem.finished_suffix:
        raise UserError(
            f"{files} have what models of {name} write, which is not text: BLEU of it would mean "
            f"nothing. It is finished in {files}.{problem.finished_suffix}. t2t-eval scores "
            f"checkpoints as the problem is scored; t2t-evalb scores trees."
        )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def _only_name(found: Collection[str], translations_dir: str | Path) -> str:
    """Returns the name of the one text whose translations are there."""
    names = sorted(found)
    if not names:
        raise UserError(
            f"There are no translations <name>-<step> in --translations_dir={translations_dir}. "
            f"Make them with t2t-translate-all; --wait_minutes waits for them."
        )
    if len(names) > 1:
        raise UserError(
            f"There are translations of {', '.join(names)} in "
            f"--translations_dir={translations_dir}. Give --source, the file that was translated."
        )
    return names[0]
