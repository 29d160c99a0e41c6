"""The scores of translations of one text by one checkpoint after another, as the files come."""

import contextlib
import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

from t2t_keras.data.text_files import read_text
from t2t_keras.errors import UserError
from t2t_keras.evaluation.bleu import TranslationScore
from t2t_keras.evaluation.score_log import ScoreLog
from t2t_keras.tables.results import Result
from t2t_keras.tables.run_result import score_fields
from t2t_keras.training.following import NO_WAIT, Follower, Patience, files_by_name_and_step


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
    results, scored against the same references in the same way, is not scored again.

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
      UserError: there are no translations, or of several texts; a file cannot be read or written.
    """
    name = Path(source).name or _only_name(translations_dir)
    digest = hashlib.sha256("\n".join(references).encode("utf-8")).hexdigest()
    kind = Result("", "", name, decode={**scored_by, "references": digest})
    log = ScoreLog(event_dir or translations_dir)
    before = log.steps_like(kind)
    follower = Follower(
        lambda: files_by_name_and_step(translations_dir).get(name, {}),
        patience,
        what="translation",
        min_steps=min_steps,
        done=before,
    )
    scored = []
    with contextlib.closing(log):
        for step, path in follower:
            found = score(read_text(Path(path)), references)
            fields = {**vars(kind), **score_fields(found), "steps": step}
            log.add(Result(**fields), {"bleu": found.bleu, "chrf": found.chrf})
            print(f"{path}:\n{found}", flush=True)
            scored.append(step)
    if not scored and not before:
        raise UserError(
            f"There are no translations {name}-<step> in {translations_dir}. Make them with "
            f"t2t-translate-all; --wait_minutes waits for them."
        )
    print(f"{log.results_file}: {len(scored) + len(before):,} translations.", flush=True)
    return scored


def _only_name(translations_dir: str | Path) -> str:
    """Returns the name of the one text whose translations are there."""
    names = sorted(files_by_name_and_step(translations_dir))
    if len(names) != 1:
        there = f"translations of {', '.join(names)}" if names else "no translations <name>-<step>"
        raise UserError(
            f"There are {there} in --translations_dir={translations_dir}. Give --source, the file "
            f"that was translated."
        )
    return names[0]
