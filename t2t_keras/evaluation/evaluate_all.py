"""The scores of every checkpoint of a run on a split of its problem, as the checkpoints come."""

import contextlib
import dataclasses
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from t2t_keras.data.generated import Generated
from t2t_keras.errors import UserError
from t2t_keras.evaluation.score_log import ScoreLog
from t2t_keras.tables.run_result import run_result
from t2t_keras.training import backend
from t2t_keras.training.followed_run import follow_run
from t2t_keras.training.following import NO_WAIT, Patience
from t2t_keras.training.run_record import RunRecord
from t2t_keras.training.split_evaluation import SplitEvaluator


def evaluate_all(
    output_dir: str | Path,
    record: RunRecord,
    generated: Generated,
    split: str = "dev",
    *,
    patience: Patience = NO_WAIT,
    min_steps: int = 0,
    eval_bleu: bool = True,
    decode_hparams: str = "",
    results_file: str | Path = "",
    make_step: Callable[..., backend.Step] = backend.make_step,
) -> list[int]:
    """Measures every checkpoint of a run, in the order of their steps.

    The curves are in `<output_dir>/eval_<split>/`, beside those of the training. A step that stands
    in results.jsonl there, scored with the same settings, is not scored again.

    Args:
      output_dir: the run.
      record: its record.
      generated: the data of its problem.
      split: "dev" or "test".
      patience: how long to wait for further checkpoints.
      min_steps: earlier checkpoints are left alone.
      eval_bleu: whether the split is translated and scored as well, by BLEU or, where the problem
        has another, its own score.
      decode_hparams: decoding settings that differ from the problem's, "name=value,...".
      results_file: a file that gets the results too, also those of before; "" = none.
      make_step: returns what evaluates, given the record (see `backend.make_step`).

    Returns:
      The steps that were scored now.

    Raises:
      UserError: there is no checkpoint, the problem has no such split, this backend cannot
        translate, or a file cannot be written.
    """
    backend.check_backend(eval_bleu)
    log = ScoreLog(Path(output_dir) / f"eval_{split}", results_file)
    _, references = generated.text(split)
    text = record.problem.text_name(split, len(references))
    step = make_step(record)
    evaluator = SplitEvaluator(step, record, generated, split, decode_hparams=decode_hparams)
    if evaluator.left_out:
        print(
            f"{evaluator.left_out:,} {split} pairs are longer than "
            f"max_length={record.hparams.max_length}: they are in the score, not in the loss."
        )
    settings = dataclasses.asdict(evaluator.translator.config) if eval_bleu else {}

    def result(path: str, score=None, scalars=None):
        return run_result(record, path, split, score, settings, text, scalars)

    before = log.steps_like(result(output_dir))
    if before:
        print(f"{log.results_file}: {len(before):,} checkpoints of earlier.", flush=True)
    follower = follow_run(output_dir, patience, min_steps, done=before)
    scored = []
    with contextlib.closing(log):
        for number, path in follower.loaded(
            lambda path: backend.checkpoints().load_weights(step.model, path)
        ):
            start = time.monotonic()
            scalars = evaluator.measure()
            score = evaluator.score() if eval_bleu else None
            points = scalars | (dict([score.main]) if score else {})
            log.add(result(path, score, scalars), points)
            _report(text or split, number, points, score, time.monotonic() - start)
            scored.append(number)
    if not scored and not before:
        raise UserError(
            f"There is no checkpoint in {output_dir} that could be scored. --wait_minutes waits "
            f"for one."
        )
    print(f"{log.results_file}: {len(scored) + len(before):,} checkpoints.", flush=True)
    return scored


def _report(
    text: str, number: int, points: Mapping[str, float], score: object, seconds: float
) -> None:
    values = ", ".join(f"{name} {value:.4g}" for name, value in points.items())
    print(f"{text} at step {number:,}: {values} ({seconds:.0f} s)")
    if score:
        print(score, flush=True)
