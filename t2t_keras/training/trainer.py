"""`train`: trains a model, or goes on with a run as if it had never stopped."""

from collections.abc import Callable
from pathlib import Path

from t2t_keras.data.generated import Generated
from t2t_keras.errors import UserError
from t2t_keras.progress_bar import print_beside_bar
from t2t_keras.training import backend
from t2t_keras.training.evaluation import Evaluator
from t2t_keras.training.microbatch import (
    find_microbatch,
    remembered_microbatch,
    with_microbatch,
)
from t2t_keras.training.profiling import StepProfiler, profiled_steps
from t2t_keras.training.run_loop import RunLoop
from t2t_keras.training.run_record import RunRecord
from t2t_keras.training.time_report import EVALUATION, TimeReport
from t2t_keras.training.train_options import SCHEDULES, TrainOptions, TrainResult
from t2t_keras.training.workers import OneWorker, SeveralWorkers


def train(
    record: RunRecord,
    generated: Generated,
    output_dir: str | Path,
    make_step: Callable[..., backend.Step] = backend.make_step,
    options: TrainOptions | None = None,
    workers: OneWorker | SeveralWorkers | None = None,
) -> TrainResult:
    """Trains a model, or goes on with a run as if it had never stopped.

    Args:
      record: what the run uses.
      generated: its data.
      output_dir: where checkpoints, logs and the record go, or are.
      make_step: returns the step, given the record, `xla` and `cpu_replicas`, as
        `backend.make_step` does.
      options: how it is watched and kept; None = the defaults.
      workers: this process and those that do every step with it; None = it trains alone.

    Returns:
      How it ended.

    Raises:
      UserError: `output_dir` holds a run that used something else, the loss is NaN, a checkpoint
        cannot be read or written.
    """
    time_report, options = TimeReport(), options or TrainOptions()
    if options.schedule not in SCHEDULES:
        raise UserError(f"--schedule is one of {', '.join(SCHEDULES)}; {options.schedule} came.")
    profiler = StepProfiler(output_dir, profiled_steps(options.profile_steps), print_beside_bar)
    _check_record(record, output_dir)
    backend.check_backend(options.eval_bleu)
    workers = workers or OneWorker()
    workers.meet(record, generated, options)
    step = make_step(record, xla=options.xla, cpu_replicas=options.cpu_replicas)
    checkpoints = workers.open_checkpoints(output_dir, step.state(), options.keep_checkpoint_max)
    restored = _load_first_weights(step.model, checkpoints, record, options.warm_start_from)
    microbatch = remembered_microbatch(step, record.hparams, output_dir, workers.cluster)
    if options.schedule != "evaluate":
        find_microbatch(microbatch, step, record, generated, workers.cluster)
    asked, record = record, with_microbatch(record, microbatch.tokens)
    evaluator = None
    if options.schedule != "train":
        how = options.eval_steps, options.eval_bleu
        evaluator = Evaluator(step, record, generated, output_dir, *how, writes=workers.is_chief)
    if options.schedule == "evaluate":
        return _evaluate_once(evaluator, step.steps_done(), output_dir, restored, time_report)
    if workers.is_chief:
        asked.save(output_dir)
    loop = RunLoop(
        Path(output_dir),
        record,
        store=generated.store("train"),
        step=step,
        microbatch=microbatch,
        checkpoints=checkpoints,
        evaluator=evaluator,
        curves=workers.make_curves(output_dir),
        profiler=profiler,
        workers=workers,
        time_report=time_report,
        options=options,
    )
    return loop.run(restored)


def _check_record(record: RunRecord, output_dir: str | Path) -> None:
    if not RunRecord.exists(output_dir):
        return
    differences = RunRecord.load(output_dir).differences(record)
    if differences:
        raise UserError(
            f"--output_dir={output_dir} holds a run that used something else:\n  "
            + "\n  ".join(differences)
            + f"\nGive what it used (or leave those flags out) to continue it; or give a new "
            f"--output_dir with --warm_start_from={output_dir} to start from its weights."
        )


def _load_first_weights(model, checkpoints, record: RunRecord, warm_start_from: str) -> str:
    """Goes on with the run, or with the weights of another; returns the run's checkpoint or ""."""
    restored = checkpoints.restore_newest()
    if restored:
        print(f"Continuing from {restored}.")
    elif warm_start_from:
        _warm_start(model, record, warm_start_from)
    return restored or ""


def _evaluate_once(
    evaluator: Evaluator,
    step: int,
    output_dir: str | Path,
    restored: str,
    time_report: TimeReport,
) -> TrainResult:
    """Measures the newest checkpoint; of a run without one, says so."""
    if not restored:
        backend.checkpoints().newest_checkpoint(output_dir)
    with time_report.spent_on(EVALUATION):
        scalars = evaluator.evaluate(step)
    print(evaluator.told(step, scalars))
    time_report.show()
    return TrainResult(step, restored, scalars)


def _warm_start(model, record: RunRecord, source: str) -> None:
    """Loads the weights of another run, whose ids must mean the same."""
    files = backend.checkpoints()
    path = files.newest_checkpoint(source) if Path(source).is_dir() else source
    if RunRecord.exists(Path(path).parent):
        theirs = RunRecord.load(Path(path).parent).tokenizer
        if theirs.checksum != record.tokenizer.checksum:
            raise UserError(
                f"--warm_start_from={source} was trained with another vocabulary "
                f"({theirs.checksum[:12]}, this data has {record.tokenizer.checksum[:12]}). Make "
                f"the data with --problem_config=vocab_file={Path(path).parent}/vocab.model."
            )
    files.load_weights(model, path)
    print(f"Starting from the weights of {path}.")
