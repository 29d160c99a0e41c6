"""A whole training: data, step, workers and scoring put together, and given to the trainer."""

import contextlib
import dataclasses
import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keras.callbacks import Callback

from t2t_keras import hyperparameters, registry
from t2t_keras.data.dataset import open_generated
from t2t_keras.data.problem import Problem, make_problem
from t2t_keras.environment import expanded
from t2t_keras.errors import UserError, nearest
from t2t_keras.hyperparameters import HParams, override_hparams
from t2t_keras.io.files import check_folder, locked_directory
from t2t_keras.training import trainer
from t2t_keras.training.backends import base as backend
from t2t_keras.training.distributed import workers_of_run
from t2t_keras.training.evaluation import deciding
from t2t_keras.training.progress import RunClock
from t2t_keras.training.recommendation import recommended_hparams
from t2t_keras.training.run_config import AUTO, RunConfig, TrainOptions, TrainResult, train_options
from t2t_keras.training.trained_parts import merged_weights


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

    An epoch is what lies between two evaluations. Its logs, which callbacks get and the history
    lists, are "step" (the steps done), "loss" (the mean training loss per token, with label
    smoothing and dropout), and of the dev set "val_loss" (per token, without either),
    "val_perplexity", "val_accuracy" and, with `eval_bleu`, "val_bleu" or what the problem's score
    is called. With `schedule="train"` all steps are one epoch with "step" and "loss". The history
    of a continued run has the epochs before; the next loss includes the steps before the stop.

    Callbacks are called as Keras's `fit` calls them; `self.model` is the model, and
    `self.model.stop_training = True` ends the run: it is evaluated and saved, and the same call
    continues it. One with a method `on_save(step, logs)` is called after each checkpoint, with its
    path as logs["checkpoint"]. Hooks of batches are called for each step, which is then waited for.
    None can change the learning rate: the optimizer is not the model's. Of several workers only the
    chief calls them, and a stop takes effect at the next evaluation or checkpoint.

    Args:
      problem: from `t2t_keras.problem`, or its name.
      hparams: from `t2t_keras.hparams`, or the name of a set; "auto" = those of the run that is
        there, or of a new run those that suit the data.
      data_dir: where `t2t_keras.generate_data` has put the problem's data.
      output_dir: the run's directory: checkpoints, logs, what the run is.
      model: registered name of the model.
      train_steps: steps from the beginning of the run; None = those of `hparams`.
      callbacks: Keras's callbacks.
      random_seed: of weights, dropout and order.
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
    fields = {field.name for field in dataclasses.fields(TrainOptions)}
    for name in options:
        if name not in fields:
            known = sorted(fields | inspect.signature(train).parameters.keys() - {"options"})
            raise UserError(
                f"There is no option '{name}' of train.{nearest(name, known)} Choose from "
                f"{', '.join(known)}.",
                code="no_such_argument",
            )
    if not 0 <= random_seed < 2**32 or (worker_gpu is not None and worker_gpu < 0):
        raise UserError(
            f"Expected a random_seed of 0 to {2**32 - 1} and a worker_gpu >= 0, got {random_seed} "
            f"and {worker_gpu}.",
            code="bad_value",
        )
    data_dir, output_dir = expanded(data_dir), expanded(output_dir)
    if not (data_dir and output_dir):
        raise UserError(
            f"Expected a data_dir and an output_dir, got {str(data_dir)!r} and "
            f"{str(output_dir)!r}. Give '.' for the working directory.",
            code="missing_folder",
        )
    if "warm_start_from" in options:
        options["warm_start_from"] = expanded(options["warm_start_from"])
    problem = make_problem(problem) if isinstance(problem, str) else problem
    if hparams == AUTO and RunConfig.exists(output_dir):
        hparams = RunConfig.load(output_dir).hparams
    elif hparams == AUTO:
        generated, source = open_generated(problem, data_dir), options.get("warm_start_from", "")
        hparams = recommended_hparams(generated, worker_gpu, source)
    elif isinstance(hparams, str):
        hparams = hyperparameters.hparams(hparams)
    if type(hparams) is not HParams and hparams.set_name not in registry.HPARAMS_SETS:
        raise UserError(
            f"{type(hparams).__name__} has hyperparameters of its own: register a set that returns "
            f"it, and get it from t2t_keras.hparams, so that the run can be loaded.",
            code="not_registered",
        )
    # Also checks values that were set in another way.
    changes = {} if train_steps is None else {"train_steps": train_steps}
    hparams = override_hparams(hparams, changes)
    config = RunConfig(problem, hparams, model, random_seed, str(data_dir))
    result = train_run(config, output_dir, worker_gpu, train_options(options), callbacks)
    # The weights that were trained belong to the replicas: Keras would not compile their model.
    own = RunConfig.load(output_dir).make_model(loaded=True)
    own.set_weights(merged_weights(result.model, hparams))
    return dataclasses.replace(result, model=own)


def train_run(
    requested: RunConfig,
    output_dir: str | Path,
    worker_gpu: int | None,
    options: TrainOptions,
    callbacks: Callback | Sequence[Callback] | None = None,
) -> TrainResult:
    """Trains the requested run, on the data in its data_dir; see `train`."""
    clock = RunClock()
    backend.check_backend(options.eval_bleu)
    with contextlib.ExitStack() as stack:
        workers = stack.enter_context(workers_of_run(options, worker_gpu))
        generated = open_generated(requested.problem, requested.data_dir)
        config, cluster = requested.with_data(generated), workers.cluster
        if options.best_by != "loss":
            # Which names a score has tells one of a few lines, long before the first evaluation.
            sources, references = (lines[:3] for lines in generated.text("dev"))
            deciding(config.problem.score(references, references, sources), options.best_by)
        if workers.is_chief:
            check_folder(output_dir, "a run")
            stack.enter_context(locked_directory(output_dir, "t2t-trainer"))
        # Read only now: before, another process may have begun a run there.
        if RunConfig.exists(output_dir):
            recorded = RunConfig.load(output_dir)
            recorded.check_unchanged(config, output_dir)
            if not options.warm_start_from:
                options = dataclasses.replace(options, **recorded.first_weights)
        config = dataclasses.replace(config, first_weights=options.first_weights())
        workers.compare(config, generated, options)
        devices = backend.plan_devices(worker_gpu, options.xla, cluster, options.cpu_replicas)
        step = backend.make_step(config, devices, cluster)
        score = None
        if options.eval_bleu and workers.is_chief:
            # Needs TensorFlow, which a machine that trains under JAX need not have.
            from t2t_keras.evaluation.follow import model_scorer

            score = model_scorer(step.model, config, generated, "dev")
        return trainer.train(
            config, generated, output_dir, step, options, workers, score, clock, callbacks
        )
