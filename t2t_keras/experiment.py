"""A whole training: data, step, workers and scoring put together, and given to the trainer."""

import contextlib
from pathlib import Path

from t2t_keras.data.dataset import open_generated
from t2t_keras.data.problem import Problem
from t2t_keras.errors import UserError
from t2t_keras.hyperparameters import HParams
from t2t_keras.io.outputs import check_folder
from t2t_keras.io.state import locked_directory
from t2t_keras.training import trainer
from t2t_keras.training.backends import base as backend
from t2t_keras.training.distributed.sync import workers_of_run
from t2t_keras.training.options import TrainOptions, TrainResult
from t2t_keras.training.progress import RunClock
from t2t_keras.training.run_config import RunConfig


def train(
    problem: Problem,
    hparams: HParams,
    data_dir: str | Path,
    output_dir: str | Path,
    *,
    model: str = "transformer",
    random_seed: int = 1,
    worker_gpu: int | None = None,
    **options,
) -> TrainResult:
    """Trains a model on a problem, or continues a run as if it had never stopped.

    Args:
      problem: from `t2t_keras.problem`.
      hparams: from `t2t_keras.hparams`.
      data_dir: where `t2t_keras.generate_data` has put the problem's data.
      output_dir: the run's directory: checkpoints, logs, what the run is.
      model: registered name of the model.
      random_seed: of weights, dropout and order.
      worker_gpu: number of GPUs; None = all visible ones, 0 = the CPU.
      **options: fields of `TrainOptions`.

    Returns:
      How the run ended.

    Raises:
      UserError: there is no data, `output_dir` contains a run with different settings or one that
        another process trains, a number is out of range, the loss is NaN, or a file cannot be read
        or written.
    """
    if not 0 <= random_seed < 2**32 or (worker_gpu is not None and worker_gpu < 0):
        raise UserError(
            f"Expected a random_seed of 0 to {2**32 - 1} and a worker_gpu >= 0, got {random_seed} "
            f"and {worker_gpu}."
        )
    config = RunConfig(problem, hparams, model, random_seed, str(data_dir))
    return train_run(config, output_dir, worker_gpu, TrainOptions(**options))


def train_run(
    requested: RunConfig, output_dir: str | Path, worker_gpu: int | None, options: TrainOptions
) -> TrainResult:
    """Trains the requested run, on the data in its data_dir; see `train`."""
    clock = RunClock()
    backend.check_backend(options.eval_bleu)
    with contextlib.ExitStack() as stack:
        workers = stack.enter_context(workers_of_run(options, worker_gpu))
        generated = open_generated(requested.problem, requested.data_dir)
        config, cluster = requested.with_data(generated), workers.cluster
        if workers.is_chief:
            check_folder(output_dir, "a run")
            stack.enter_context(locked_directory(output_dir, "t2t-trainer"))
        # Read only now: before, another process may have begun a run there.
        if RunConfig.exists(output_dir):
            RunConfig.load(output_dir).check_unchanged(config, output_dir)
        workers.compare(config, generated, options)
        devices = backend.plan_devices(worker_gpu, options.xla, cluster, options.cpu_replicas)
        step = backend.make_step(config, devices, cluster)
        score = None
        if options.eval_bleu and workers.is_chief:
            # Needs TensorFlow, which a machine that trains under JAX need not have.
            from t2t_keras.evaluation.follow import model_scorer

            score = model_scorer(step.model, config, generated, "dev")
        return trainer.train(config, generated, output_dir, step, options, workers, score, clock)
