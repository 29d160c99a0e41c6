"""What a run is asked to use: what is said, and for a run that exists, what it used."""

import dataclasses
import functools
import hashlib
import json
from pathlib import Path
from typing import Any

from t2t_keras import registry
from t2t_keras.data.generated import Generated, open_generated
from t2t_keras.data.manifest import MANIFEST_FILE
from t2t_keras.data.problem import Problem
from t2t_keras.errors import UserError
from t2t_keras.hyperparameters import HParams, override_hparams
from t2t_keras.settings import parse_assignments
from t2t_keras.training.run_record import RunRecord


@dataclasses.dataclass(frozen=True)
class RunRequest:
    """A run that is to be started or continued.

    Attributes:
      problem: with its settings.
      model: registered name.
      hparams_set: registered name.
      hparams: resolved.
      random_seed: of weights, dropout and order.
      data_dir: where the generated data stands.
    """

    problem: Problem
    model: str
    hparams_set: str
    hparams: HParams
    random_seed: int
    data_dir: str

    def has_data(self) -> bool:
        """Returns whether generated data of the problem is there."""
        return (Path(self.data_dir) / self.problem.name / MANIFEST_FILE).exists()

    def record(self, generated: Generated) -> RunRecord:
        """Returns the record of the run on this data."""
        train_files = {
            name: entry["sha256"]
            for name, entry in sorted(generated.manifest["files"].items())
            if name.startswith("train")
        }
        return RunRecord(
            problem=generated.problem,
            model=self.model,
            hparams_set=self.hparams_set,
            hparams=self.hparams,
            random_seed=self.random_seed,
            data_dir=str(Path(self.data_dir).resolve()),
            data=hashlib.sha256(json.dumps(train_files).encode("utf-8")).hexdigest(),
            tokenizer=generated.tokenizer,
        )


def train_problem(
    problem: Problem,
    hparams: HParams,
    data_dir: str | Path,
    output_dir: str | Path,
    *,
    random_seed: int = 1,
    worker_gpu: int | None = None,
    **options,
):
    """Trains a model on a problem, or goes on with a run as if it had never stopped.

    Args:
      problem: from `t2t_keras.problem`.
      hparams: from `t2t_keras.hparams`.
      data_dir: where `t2t_keras.generate_data` has put the problem's data.
      output_dir: where checkpoints, logs and the record of the run go, or are.
      random_seed: of weights, dropout and order.
      worker_gpu: number of GPUs; None = all that are visible, 0 = the CPU.
      **options: fields of `TrainOptions`.

    Returns:
      A `TrainResult`.

    Raises:
      UserError: no data, a run that used something else, a NaN loss, a full disk ...
    """
    request = RunRequest(problem, "transformer", "", hparams, random_seed, str(data_dir))
    return run_training(request, output_dir, worker_gpu, **options)


def run_training(
    request: RunRequest, output_dir: str | Path, worker_gpu: int | None = None, **options
):
    """Trains what is requested on the data that is there; see `train_problem`."""
    from t2t_keras.training import backend
    from t2t_keras.training.train_options import TrainOptions
    from t2t_keras.training.trainer import train
    from t2t_keras.training.workers import workers_of_run

    options = TrainOptions(**options)
    with workers_of_run(options, worker_gpu) as workers:
        generated = open_generated(request.problem, request.data_dir)
        make_step = functools.partial(
            backend.make_step, worker_gpu=worker_gpu, cluster=workers.cluster
        )
        record = request.record(generated)
        return train(record, generated, output_dir, make_step, options, workers)


def requested_run(output_dir: str | Path, given: dict[str, Any]) -> RunRequest:
    """Completes what is given with what the run in `output_dir` used, if there is one.

    Args:
      output_dir: the run's directory.
      given: what was said, by flag: problem, problem_config, model, hparams_set, hparams,
        random_seed, data_dir, train_steps.

    Returns:
      The request; where it contradicts the run, `train` says so.

    Raises:
      UserError: something is needed that neither was said nor is in the run's record.
    """
    before = RunRecord.load(output_dir) if RunRecord.exists(output_dir) else None
    missing = [
        f"--{name}"
        for name in ("problem", "hparams_set", "data_dir")
        if before is None and not given.get(name)
    ]
    if missing:
        raise UserError(
            f"Please give {' and '.join(missing)}: there is no run in {output_dir} to read them "
            f"from. --registry_help lists problems and hyperparameter sets."
        )
    return RunRequest(
        problem=_problem(before, given),
        model=given.get("model") or (before.model if before else "transformer"),
        hparams_set=given.get("hparams_set") or before.hparams_set,
        hparams=_hparams(before, given),
        random_seed=given.get("random_seed", before.random_seed if before else 1),
        data_dir=given.get("data_dir") or before.data_dir,
    )


def _problem(before: RunRecord | None, given: dict[str, Any]) -> Problem:
    config = given.get("problem_config", "")
    name = given.get("problem")
    if before is None or (name and name != before.problem.name):
        return registry.problem(name, config)
    return registry.problem(
        before.problem.name, {**before.problem.config(), **parse_assignments(config)}
    )


def _hparams(before: RunRecord | None, given: dict[str, Any]) -> HParams:
    name = given.get("hparams_set")
    if before is None or (name and name != before.hparams_set):
        hparams = registry.hparams(name, given.get("hparams", ""))
    else:
        hparams = override_hparams(before.hparams, given.get("hparams", ""))
    if "train_steps" in given:
        hparams = override_hparams(hparams, {"train_steps": given["train_steps"]})
    return hparams
