"""The checkpoints of a run: saving, pruning, restoring intact ones, loading into models."""

import contextlib
import dataclasses
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np

from t2t_keras.data.problem import Problem
from t2t_keras.environment import expand_path
from t2t_keras.errors import UserError
from t2t_keras.hyperparameters import HParams
from t2t_keras.io.files import (
    BEST,
    CHECKPOINT_PREFIX,
    HAS_SAVED_FILE,
    MANIFEST_FILE,
    RUN_FILE,
    SAFETENSORS,
    SAVED_MODEL_FILE,
    TEMPORARY_SUFFIX,
    last_writer,
    locked_directory,
)
from t2t_keras.text.tokenizer import Tokenizer
from t2t_keras.training import checkpoint_files
from t2t_keras.training.checkpoint_files import (
    DamagedCheckpointError,
    checkpoint_at,
    checkpoint_paths,
    first_line,
    path_at,
    suggest_intact,
)
from t2t_keras.training.cost import copy_cost
from t2t_keras.training.optimizer import Adam, weights_and_averages
from t2t_keras.training.run_config import RunConfig

# Key in the head of the best weights, for the step of the run's newest checkpoint.
NEWEST_SAVED = "newest_saved"
# Prefixes of array names: the model's, the optimizer's, and those that `weights_of` needs.
MODEL, _OPTIMIZER, LORA_SCALE = "model", "optimizer", "lora_scale"
WEIGHTS = (f"{MODEL}/", LORA_SCALE)
# Keras's name for the factor A of a matrix; the name of B ends in _b.
_FACTOR_A = re.compile(r"(.*/)lora_(\w+)_a")
# The command that writes means; lock files record it.
AVERAGING = "t2t-avg-all"


class WeightsOnlyError(UserError):
    """A run cannot continue from a checkpoint without the optimizer's state."""

    def __init__(self, path: str | Path):
        super().__init__(
            f"The checkpoint {path} contains only weights, so a run cannot continue from it. Start "
            f"a new run, in a new --output_dir, with --warm_start_from={path}.",
            code="weights_only",
        )


class Checkpoints:
    """The newest checkpoints of a run, each complete or absent.

    The weight `encoder_0/self_attention/query/kernel` is the array
    `model/encoder_0/self_attention/query/kernel`, on every backend.

    Args:
      directory: the folder of the checkpoints.
      state: the content to save and restore: the "model", or its weights by name; Keras's
        "optimizer"; under further names, variables, arrays or mappings of them.
      keep: number of checkpoints to keep.

    Attributes:
      head: the head of the last restored checkpoint; {} = none.
    """

    def __init__(self, directory: str | Path, state: Mapping[str, Any], keep: int):
        self._directory, self._state, self._keep = Path(directory), state, keep
        self.head: dict[str, Any] = {}

    def restore(self, path: str) -> None:
        """Restores a checkpoint, and changes no file.

        Raises:
          DamagedCheckpointError: its content is damaged; nothing is restored.
          UserError: it cannot be opened or read, it lacks a part of the state, or its shapes
            differ.
        """
        arrays, head = checkpoint_files.read(path)
        _assign(_arrays_by_name(self._state), arrays, path)
        self.head = head

    def restore_newest(self) -> str | None:
        """Restores the newest undamaged checkpoint and returns its path; None if there is none.

        Damaged ones are reported and renamed.

        Raises:
          UserError: all checkpoints are damaged; one cannot be opened or read; or all that the run
            has saved are gone.
        """
        for path in reversed(checkpoint_paths(self._directory)):
            try:
                self.restore(path)
            except DamagedCheckpointError as error:
                print(f"{error} It is renamed to damaged.{Path(path).name}.", flush=True)
                Path(path).rename(Path(path).with_name(f"damaged.{Path(path).name}"))
            else:
                self._remove_interrupted()
                return path
        # Includes checkpoints that an earlier start has renamed.
        if damaged := sorted(self._directory.glob(f"damaged.{CHECKPOINT_PREFIX}-*{SAFETENSORS}")):
            raise UserError(
                f"None of the {len(damaged)} checkpoints in {self._directory} can be read: "
                f"{', '.join(file.name for file in damaged)}. {self._restart_advice()}",
                code="checkpoint_damaged",
            )
        if self._has_saved():
            raise UserError(
                f"The checkpoints that were saved in {self._directory} are gone, so the run cannot "
                f"continue: expected {CHECKPOINT_PREFIX}-*{SAFETENSORS}. Put them back. Or: "
                f"{self._restart_advice()}",
                code="checkpoints_gone",
            )
        return None

    def _has_saved(self) -> bool:
        """Returns whether the run has saved a checkpoint, even if only best/ remains."""
        if (self._directory / HAS_SAVED_FILE).exists():
            return True
        best = checkpoint_paths(self._directory / BEST)
        return bool(best) and checkpoint_files.read_head(best[-1]).get(NEWEST_SAVED, 0) > 0

    def _restart_advice(self) -> str:
        best = checkpoint_paths(self._directory / BEST)
        warm_start = f", with --warm_start_from={best[-1]} to start from the best" if best else ""
        return f"Give a new --output_dir{warm_start}; or remove {self._directory} to start over."

    def save(self, step: int, head: Mapping[str, Any] | None = None) -> str:
        """Writes a step's checkpoint, deletes the oldest if too many, and returns the path.

        `head` is saved with the arrays, as JSON.

        Raises:
          UserError: it cannot be written, as on a full disk; earlier checkpoints stay.
        """
        # A run cannot continue from weights alone, as in best/.
        can_continue = _OPTIMIZER in self._state
        earlier_paths = checkpoint_paths(self._directory)
        path = path_at(self._directory, step)
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            head = {"step": step, **(head or {})}
            checkpoint_files.write(path, _arrays_by_name(self._state), head, _to_array)
            if can_continue and step > 0:
                (self._directory / HAS_SAVED_FILE).touch()
        except OSError as error:
            advice = "Make room, and run the same command again."
            if can_continue:
                origin = earlier_paths[-1] if earlier_paths else "the beginning"
                advice = f"Make room; the same command continues from {origin}."
            raise UserError(
                f"Cannot write the checkpoint {path}: {first_line(error)}. {advice}",
                code="not_written",
            ) from error
        paths = [*(earlier for earlier in earlier_paths if earlier != path), path]
        for old_path in paths[: -self._keep]:
            with contextlib.suppress(OSError):
                Path(old_path).unlink()
        return path

    def _remove_interrupted(self) -> None:
        """Deletes the files of interrupted writes."""
        for file in self._directory.glob(f"{CHECKPOINT_PREFIX}-*{TEMPORARY_SUFFIX}"):
            file.unlink(missing_ok=True)


def different_hparams_error(path: str | Path, reason: str) -> UserError:
    """Returns the error for a checkpoint that does not fit the model."""
    return UserError(
        f"The checkpoint {path} belongs to a model with other hyperparameters: {reason}.",
        code="other_model",
    )


def load_weights(model: keras.Model, path: str | Path) -> None:
    """Restores a model's weights, with adapters merged, from a checkpoint.

    Raises:
      UserError: the checkpoint is missing, damaged or from a model with other hyperparameters.
    """
    path = checkpoint_at(path)
    with suggest_intact(path):
        arrays, _ = checkpoint_files.read(path, WEIGHTS)
    assign_weights(model, weights_of(arrays), path)


def weights_of(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns the weights among a checkpoint's arrays, by name, with adapters merged."""
    arrays = merge_adapters(arrays) if LORA_SCALE in arrays else arrays
    prefix = f"{MODEL}/"
    return {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }


def merge_adapters(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns a checkpoint's arrays with adapters merged: each W becomes W + scale · A · B."""
    weights = {name: array for name, array in arrays.items() if "/lora_" not in name}
    for name, a in arrays.items():
        match = _FACTOR_A.fullmatch(name)
        # The pattern also matches the optimizer's moments of the factors.
        if match and (matrix := f"{match[1]}{match[2]}") in weights:
            b = arrays[f"{name.removesuffix('_a')}_b"]
            weights[matrix] = weights[matrix] + arrays[LORA_SCALE] * (a @ b)
    return weights


def name_in(model: keras.Model, weight: keras.Variable) -> str:
    """Returns the name of a weight, such as `encoder_0/self_attention/query/kernel`."""
    return weight.path.removeprefix(f"{model.name}/")


def assign_weights(model: keras.Model, weights: Mapping[str, np.ndarray], path: str | Path) -> None:
    """Assigns weights to a model by name, except to adapters; errors name `path`, the checkpoint.

    Raises:
      UserError: a weight is missing, not in the model, or has another shape.
    """
    variables = {
        f"{MODEL}/{name_in(model, weight)}": weight
        for weight in model.weights
        if "/lora_" not in weight.path
    }
    _assign(variables, {f"{MODEL}/{name}": array for name, array in weights.items()}, path)


def _assign(
    variables: Mapping[str, keras.Variable],
    arrays: Mapping[str, np.ndarray],
    path: str | Path,
) -> None:
    if not set(variables) <= set(arrays):
        arrays = _rename_to_match(variables, arrays)
    missing = [name for name in variables if name not in arrays]
    lacks_weights = any(name.startswith(f"{MODEL}/") for name in missing)
    has_optimizer = any(name.startswith(f"{_OPTIMIZER}/") for name in arrays)
    if missing and not lacks_weights and not has_optimizer:
        raise WeightsOnlyError(path)
    mismatches = [
        f"{name} has shape {list(arrays[name].shape)}, but {list(variable.shape)} in the model"
        for name, variable in variables.items()
        if name in arrays and arrays[name].shape != tuple(variable.shape)
    ]
    mismatches += [f"{name} is missing, expected {list(variables[name].shape)}" for name in missing]
    mismatches += [
        f"{name} {list(arrays[name].shape)} is not in the model"
        for name in sorted(set(arrays) - set(variables))
        if name.startswith(f"{MODEL}/")
    ]
    if mismatches:
        more = f" (and {len(mismatches) - 1} more)" if len(mismatches) > 1 else ""
        raise different_hparams_error(path, f"{mismatches[0]}{more}")
    for name, variable in variables.items():
        variable.assign(arrays[name])


def _rename_to_match(
    variables: Iterable[str], arrays: Mapping[str, np.ndarray]
) -> Mapping[str, np.ndarray]:
    """Renames arrays to the names that variables have in this process.

    By default Keras names layers dense, dense_1, ..., and counts the layers of all models. Names
    that differ only in these numbers are matched by their order.
    """
    names_by_kind: tuple[dict[str, list[str]], ...] = defaultdict(list), defaultdict(list)
    for side, by_kind in zip((variables, arrays), names_by_kind, strict=True):
        for name in side:
            by_kind[re.sub(r"_\d+(?=/)", "", name)].append(name)
    variable_names, array_names = names_by_kind
    renamed = {
        array_name: name
        for kind, names in array_names.items()
        if len(names) == len(variable_names[kind])
        for array_name, name in zip(names, variable_names[kind], strict=True)
    }
    return {renamed.get(name, name): array for name, array in arrays.items()}


def _arrays_by_name(state: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the variables of a state (see `Checkpoints`) by the names of their arrays."""
    model, optimizer = state[MODEL], state.get(_OPTIMIZER)
    parts = dict(state)
    if isinstance(model, keras.Model):
        parts[MODEL] = {name_in(model, weight): weight for weight in model.weights}
    if isinstance(optimizer, keras.optimizers.Optimizer):
        parts[_OPTIMIZER] = _optimizer_arrays(optimizer, model)
    arrays: dict[str, Any] = {}
    for part, content in parts.items():
        if isinstance(content, Mapping):
            arrays |= {f"{part}/{name}": value for name, value in content.items()}
        else:
            arrays[part] = content
    return arrays


def _optimizer_arrays(optimizer: keras.optimizers.Optimizer, model: keras.Model) -> dict[str, Any]:
    """Returns an optimizer's variables by name: with the weight's name if known, else numbered."""
    by_kind = {"average": [average for _, average in weights_and_averages(optimizer)]}
    if isinstance(optimizer, Adam):
        by_kind |= {"momentum": optimizer._momentums, "velocity": optimizer._velocities}
    arrays = {"iterations": optimizer.iterations}
    for kind, variables in by_kind.items():
        for weight, variable in zip(optimizer._trainable_variables, variables, strict=False):
            arrays[f"{kind}/{name_in(model, weight)}"] = variable
    known_ids = set(map(id, arrays.values()))
    unnamed = [variable for variable in optimizer.variables if id(variable) not in known_ids]
    return arrays | {f"variable_{number}": variable for number, variable in enumerate(unnamed)}


def _to_array(variable: Any) -> np.ndarray:
    """Returns the value of a variable of any backend, or an array unchanged."""
    return np.asarray(variable.value if isinstance(variable, keras.Variable) else variable)


def write_run(
    command: str,
    config: RunConfig,
    output_dir: str | Path,
    weights: Mapping[str, np.ndarray],
    steps: int,
    head: Mapping[str, Any] | None = None,
    overwrite: bool = False,
) -> str:
    """Writes a run with one checkpoint.

    Args:
      command: the writing command, for the lock file.
      config: config of the run.
      output_dir: directory for the run; must not contain one.
      weights: the model's weights by name.
      steps: step of the checkpoint.
      head: head of the checkpoint that the weights come from; its cost is copied.
      overwrite: whether to replace a mean.

    Returns:
      The path of the checkpoint.
    """
    with locked_directory(output_dir, command):
        refuse_occupied(output_dir, overwrite)
        checkpoints = Checkpoints(output_dir, {MODEL: weights}, keep=1)
        path = checkpoints.save(steps, copy_cost(head or {}))
        config.save(output_dir)
    return path


def refuse_occupied(output_dir: str | Path, overwrite: bool = False, flag: str = "") -> None:
    """Raises `UserError` if a directory contains a run, generated data or an export.

    With `overwrite` the directory may contain a mean; errors suggest `flag` for that.
    """
    is_mean = last_writer(output_dir) == AVERAGING
    if is_mean and overwrite:
        return
    weights = f"{CHECKPOINT_PREFIX}-*"
    for name in (RUN_FILE, "vocab.*", MANIFEST_FILE, SAVED_MODEL_FILE, weights):
        for file in Path(output_dir).glob(name):
            advice = f", or {flag} to replace the mean there" if flag and is_mean else ""
            raise UserError(
                f"--output_dir={output_dir} already contains {file.name}. Give a new directory"
                f"{advice}.",
                code="output_exists",
            )


@dataclasses.dataclass(frozen=True)
class TrainedModel:
    """A trained model and its vocabulary; unpacks as `model, tokenizer`.

    Attributes:
      model: the Keras model, a `Transformer` unless the run has another one.
      tokenizer: its vocabulary.
      problem: the problem of its run, as `Translator` takes it.
      hparams: its hyperparameters.
      checkpoint: the path of the checkpoint.
    """

    model: keras.Model
    tokenizer: Tokenizer
    problem: Problem
    hparams: HParams
    checkpoint: str

    def __iter__(self) -> Iterator[Any]:
        return iter((self.model, self.tokenizer))


def load_model(path: str | Path, weights_dtype: str = "float32") -> TrainedModel:
    """Loads the model of a run, to call, compile, train, translate with or export.

    Args:
      path: the directory of a run or its `best/`, for the newest checkpoint there; or a checkpoint.
      weights_dtype: type of the weights and of all computation, as for `from_hparams`; only
        float32 is for training.

    Raises:
      UserError: there is no such run or checkpoint, or it cannot be read.

    Example:
      >>> model, tokenizer = load_model("runs/base")
    """
    checkpoint = checkpoint_at(expand_path(path))
    config = RunConfig.load(Path(checkpoint).parent)
    model = config.make_model(weights_dtype, will_load=True)
    load_weights(model, checkpoint)
    return TrainedModel(model, config.vocabulary, config.problem, config.hparams, checkpoint)


def load_ensemble_model(path: str | Path, tokenizer: Tokenizer, weights_dtype: str) -> keras.Model:
    """Loads a model like `load_model`, as a member of an ensemble with this vocabulary.

    Raises:
      UserError: there is no such run or checkpoint, or it has another vocabulary.
    """
    model, member = load_model(path, weights_dtype)
    if member.checksum != tokenizer.checksum:
        raise UserError(
            f"{path} has a different vocabulary: expected {tokenizer.vocab_size:,} pieces with "
            f"SHA-256 {tokenizer.checksum[:12]}, got {member.vocab_size:,} with "
            f"{member.checksum[:12]}. Train the runs of an ensemble on the same data.",
            code="other_vocabulary",
        )
    return model
