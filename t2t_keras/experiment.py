"""Sets up and runs training: hyperparameters, training step, workers and scoring."""

import contextlib
import dataclasses
import inspect
import itertools
import math
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keras.callbacks import Callback

from t2t_keras import hyperparameters, registry
from t2t_keras.data.batches import TokenBatchSampler, replica_batches
from t2t_keras.data.dataset import Generated, open_generated
from t2t_keras.data.problem import Problem, make_problem
from t2t_keras.environment import expand_path
from t2t_keras.errors import UserError, command_line, suggest
from t2t_keras.hyperparameters import HParams, override_hparams
from t2t_keras.io.files import check_folder, locked_directory
from t2t_keras.training import trainer
from t2t_keras.training.backends import base as backend
from t2t_keras.training.cost import RunClock, hardware_name
from t2t_keras.training.distributed import workers_of_run
from t2t_keras.training.evaluation import selection_metric
from t2t_keras.training.run_config import AUTO, RunConfig, TrainOptions, TrainResult, train_options
from t2t_keras.training.trained_parts import merged_weights

# (max pairs, set for a CPU, set for a GPU, epochs). The first row that allows the number of
# training pairs applies. Training stops after its epochs or the set's steps, whichever end first.
_RECOMMENDED_SETS = (
    (100_000, "transformer_cpu", "transformer_cpu", 20),
    (1_000_000, "transformer_small", "transformer_small", 10),
    (math.inf, "transformer_small", "transformer_base", 10),
)
_MIN_STEPS = 1000
# Seconds for which to time steps, and the maximum tokens of a timed step on a CPU.
_TIMING_SECONDS, _MAX_TIMED_TOKENS = 2.0, 4096
_HOUR, _DAY = 3600.0, 86_400.0


def train(
    problem: Problem | str,
    hparams: HParams | str,
    data_dir: str | Path,
    output_dir: str | Path,
    *,
    model: str = "transformer",
    train_steps: int | None = None,
    callbacks: Callback | Sequence[Callback] | None = None,
    random_seed: int = 1,
    worker_gpu: int | None = None,
    **options: Any,
) -> TrainResult:
    """Trains a model on a problem, or continues a run as if it had never stopped.

    Each evaluation ends an epoch. Callbacks and the history get the epoch's logs: "step" (steps so
    far), "loss" (mean training loss per token, with label smoothing and dropout) and, for the dev
    set, "val_loss" (per token, without label smoothing and dropout), "val_perplexity",
    "val_accuracy" and, with `eval_bleu`, "val_bleu" or the name of the problem's own score. With
    `schedule="train"` all steps are one epoch, with "step" and "loss". The history of a continued
    run includes the earlier epochs; an interrupted epoch's loss is the mean over all its steps.

    Callbacks are called as Keras's `fit` calls them. `self.model` is the model, and
    `self.model.stop_training = True` ends the run: it is evaluated and saved, and the same call
    continues it. A method `on_save(step, logs)` is called after each checkpoint, with its path in
    logs["checkpoint"]. With batch hooks, training waits for each step to finish. Callbacks cannot
    change the learning rate: the optimizer is not attached to the model. With several workers only
    the chief calls them, and a stop takes effect at the next evaluation or checkpoint.

    Args:
      problem: from `t2t_keras.problem`, or its name.
      hparams: from `t2t_keras.hparams`, or the name of a set; "auto" = the values of an
        existing run or, for a new run, values that suit the data.
      data_dir: the directory that `t2t_keras.generate_data` wrote to.
      output_dir: the run's directory, with its checkpoints, logs and settings.
      model: registered name of the model.
      train_steps: steps from the beginning of the run; None = the number in `hparams`.
      callbacks: Keras's callbacks.
      random_seed: seed of the initial weights, dropout and data order.
      worker_gpu: number of GPUs; None = all visible ones, 0 = the CPU.
      **options: fields of `TrainOptions`.

    Returns:
      How the run ended, with its history and its model.

    Raises:
      UserError: there is no such problem, set, model, option or data, a callback changes the
        optimizer, `output_dir` contains a run with different settings or one that another process
        trains, a number is out of range, the loss is NaN, or a file cannot be read or written.

    Examples:
      >>> stop = keras.callbacks.EarlyStopping(patience=3)
      >>> result = train("translate_ende_toy", "transformer_tiny", "data", "runs/toy",
      ...                callbacks=[stop], local_eval_frequency=200)
      >>> result.history["val_loss"]
      [3.1, 2.2, 1.6]
    """
    _check_arguments(options, random_seed, worker_gpu)
    data_dir, output_dir = expand_path(data_dir), expand_path(output_dir)
    if not (data_dir and output_dir):
        raise UserError(
            f"Expected a data_dir and an output_dir, got {str(data_dir)!r} and "
            f"{str(output_dir)!r}. Give '.' for the working directory.",
            code="missing_folder",
        )
    if "warm_start_from" in options:
        options["warm_start_from"] = expand_path(options["warm_start_from"])
    problem = make_problem(problem) if isinstance(problem, str) else problem
    if hparams == AUTO and not RunConfig.exists(output_dir):
        generated = open_generated(problem, data_dir)
        hparams = recommended_hparams(
            generated,
            worker_gpu,
            options.get("warm_start_from", ""),
            cpu_replicas=options.get("cpu_replicas", 1),
        )
    elif hparams == AUTO:
        hparams = RunConfig.load(output_dir).hparams
    elif isinstance(hparams, str):
        hparams = hyperparameters.hparams(hparams)
    _check_registered(hparams)
    # Also checks values that did not come from `override_hparams`.
    changes = {} if train_steps is None else {"train_steps": train_steps}
    hparams = override_hparams(hparams, changes)
    requested_run = RunConfig(problem, hparams, model, random_seed, str(data_dir))
    config, result = train_run(
        requested_run, output_dir, worker_gpu, train_options(options), callbacks
    )
    # `result.model` belongs to the replicas, and Keras would not compile it.
    trained_model = config.make_model()
    trained_model.set_weights(merged_weights(result.model, hparams))
    return dataclasses.replace(result, model=trained_model)


def _check_arguments(options: dict[str, Any], random_seed: int, worker_gpu: int | None) -> None:
    """Checks arguments of `train`."""
    fields = {field.name for field in dataclasses.fields(TrainOptions)}
    for name in options:
        if name not in fields:
            known = sorted(fields | inspect.signature(train).parameters.keys() - {"options"})
            raise UserError(
                f"There is no option '{name}' of train.{suggest(name, known)} Choose from "
                f"{', '.join(known)}.",
                code="no_such_argument",
            )
    if not 0 <= random_seed < 2**32 or (worker_gpu is not None and worker_gpu < 0):
        raise UserError(
            f"Expected a random_seed of 0 to {2**32 - 1} and a worker_gpu >= 0, got {random_seed} "
            f"and {worker_gpu}.",
            code="bad_value",
        )


def _check_registered(hparams: HParams) -> None:
    """Raises `UserError` for a user's own class of hyperparameters without a registered set."""
    if type(hparams) is not HParams and hparams.set_name not in registry.HPARAMS_SETS:
        raise UserError(
            f"{type(hparams).__name__} has hyperparameters of its own. Register a set of "
            f"this class, and get it from t2t_keras.hparams, so that the run can be loaded.",
            code="not_registered",
        )


def train_run(
    requested: RunConfig,
    output_dir: str | Path,
    worker_gpu: int | None,
    options: TrainOptions,
    callbacks: Callback | Sequence[Callback] | None = None,
) -> tuple[RunConfig, TrainResult]:
    """Trains the requested run on the data in its data_dir; see `train`.

    Returns:
      The run's config, completed from its data, and the result.
    """
    clock = RunClock()
    backend.check_backend()
    with contextlib.ExitStack() as stack:
        workers = stack.enter_context(workers_of_run(options, worker_gpu))
        generated = open_generated(requested.problem, requested.data_dir)
        config, cluster = requested.with_data(generated), workers.cluster
        if options.best_by != "loss":
            # Score a few lines to check the metric now, long before the first evaluation.
            sources, references = (lines[:3] for lines in generated.text("dev"))
            selection_metric(config.problem.score(references, references, sources), options.best_by)
        if workers.is_chief:
            check_folder(output_dir, "a run")
            stack.enter_context(locked_directory(output_dir, "t2t-trainer"))
        devices = backend.plan_devices(worker_gpu, options.xla, cluster, options.cpu_replicas)
        # Read under the lock, since another process may have just begun a run there.
        if RunConfig.exists(output_dir):
            # Runs that did not record it have batches by length.
            recorded = RunConfig.load(output_dir).with_batching("length")
            config = config.with_batching(recorded.hparams.batching)
            recorded.check_unchanged(config, output_dir)
            if not options.warm_start_from:
                options = dataclasses.replace(options, **recorded.first_weights)
        config = config.with_batching(devices.batching)
        config = dataclasses.replace(config, first_weights=options.first_weights())
        if cluster:
            workers.check_same(config, generated, options)
        step = backend.make_step(config, devices, cluster)
        score = None
        if options.eval_bleu and workers.is_chief:
            # Imported here, since a machine that trains with JAX may lack sacreBLEU.
            from t2t_keras.evaluation.follow import model_scorer

            score = model_scorer(step.model, config, generated, "dev")
        return config, trainer.train(
            config, generated, output_dir, step, options, workers, score, clock, callbacks
        )


def recommended_hparams(
    generated: Generated,
    worker_gpu: int | None = None,
    warm_start_from: str = "",
    devices: backend.Devices | None = None,
    cpu_replicas: int = 1,
) -> HParams:
    """Returns the hyperparameters that suit a problem's data and this machine.

    A problem may name its set. Otherwise the set depends on the number of training pairs and the
    presence of a GPU. The number of steps is the set's, or smaller for little data; for a warm
    start, it depends only on the size of the data.

    Args:
      generated: the data.
      worker_gpu: number of GPUs; None = all visible ones, 0 = the CPU.
      warm_start_from: run or checkpoint whose weights training starts from, and whose
        hyperparameters it keeps; "" = none.
      devices: the devices for `worker_gpu`, if already planned.
      cpu_replicas: see `TrainOptions`.
    """
    examples, problem = generated.open_examples("train"), generated.problem
    _, cpu_set, gpu_set, epochs = next(row for row in _RECOMMENDED_SETS if len(examples) <= row[0])
    # With two vocabularies, only the target embedding and the softmax can share a matrix.
    changes = {"share_embeddings": "target"} if generated.tokenizer.source_vocab_size else {}
    if warm_start_from:
        folder = Path(warm_start_from)
        folder = folder if folder.is_dir() else folder.parent
        if not RunConfig.exists(folder):
            raise UserError(
                f"--warm_start_from={warm_start_from}: expected a run or a checkpoint of a run. "
                f"--hparams_set={AUTO} copies the run's hyperparameters.",
                code="no_run",
            )
        # Do not inherit fine-tuning settings, nor the batching of other devices.
        hparams = dataclasses.replace(
            RunConfig.load(folder).hparams,
            trainable=(),
            lora_rank=0,
            lora_alpha=0.0,
            ema_decay=0.0,
            batching="auto",
        )
    elif problem.hparams_set:
        return hyperparameters.hparams(problem.hparams_set, changes)
    else:
        devices = devices or backend.plan_devices(worker_gpu, cpu_replicas=cpu_replicas)
        hparams = hyperparameters.hparams(gpu_set if devices.gpus else cpu_set, changes)
    limits = hparams.batch_tokens, hparams.max_length
    batches = len(TokenBatchSampler(examples.lengths, *limits, seed=0).epoch(0))
    steps = max(round(epochs * batches, -2), _MIN_STEPS)
    if not warm_start_from:
        steps = min(steps, hparams.train_steps)
    return dataclasses.replace(hparams, train_steps=steps)


def recommendation(generated: Generated, flags: Sequence[str]) -> str:
    """Returns a message with the recommended set, its training time here, and the command.

    `flags` are the command's flags for the problem and the folder of its data.
    """
    devices = backend.plan_devices()
    hparams = recommended_hparams(generated, devices=devices)
    seconds = hparams.train_steps * _seconds_per_step(generated, hparams, devices)
    name = generated.problem.name
    folders = itertools.chain([name], (f"{name}-{number}" for number in itertools.count(2)))
    output_dir = next(path for folder in folders if not (path := Path("runs") / folder).exists())
    command = command_line("t2t-trainer", *flags, output_dir=output_dir, hparams_set=AUTO)
    return (
        f"To train with {hparams.set_name} for {hparams.train_steps:,} steps, which take about "
        f"{duration(seconds)} on {hardware_name(devices.gpus)}:{command}"
    )


def duration(seconds: float) -> str:
    """Returns a duration in minutes, hours or days."""
    if seconds < 2 * _HOUR:
        return f"{max(seconds / 60, 1):.0f} min"
    return f"{seconds / _HOUR:.0f} hours" if seconds < 2 * _DAY else f"{seconds / _DAY:.0f} days"


def _seconds_per_step(generated: Generated, hparams: HParams, devices: backend.Devices) -> float:
    """Returns the median seconds of a step on this machine, without compilation."""
    # On a CPU the time is proportional to the tokens, and memory is scarce.
    tokens = hparams.batch_tokens if devices.gpus else min(hparams.batch_tokens, _MAX_TIMED_TOKENS)
    microbatch = min(hparams.microbatch_tokens or tokens, tokens)
    config = RunConfig(generated.problem, hparams).with_data(generated)
    config = config.with_batching(devices.batching)
    step = backend.make_step(config, devices)
    examples = generated.open_examples("train")
    max_length, batching = min(hparams.max_length, microbatch), config.hparams.batching
    sampler = TokenBatchSampler(examples.lengths, tokens, max_length, seed=0, batching=batching)
    rows = sampler.rows_for(step, microbatch)
    parts = list(replica_batches(examples, sampler.at(0), microbatch, step, rows))
    float(step.update(0, parts)["loss"])  # Compiles the step.
    seconds: list[float] = []
    while sum(seconds) < _TIMING_SECONDS:
        start = time.monotonic()
        float(step.update(0, parts)["loss"])
        seconds.append(time.monotonic() - start)
    return statistics.median(seconds) * hparams.batch_tokens / tokens
