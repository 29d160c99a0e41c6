"""What a run is, how it is watched, and how it ended: kept in its output directory."""

import contextlib
import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from t2t_keras import hyperparameters, registry
from t2t_keras.data.augmentation import OnlineAugmentation
from t2t_keras.data.dataset import Generated
from t2t_keras.data.problem import Problem, make_problem
from t2t_keras.environment import free_memory, installed_versions
from t2t_keras.errors import UserError, brief
from t2t_keras.hyperparameters import HParams, override_hparams
from t2t_keras.io.files import differences, not_a_run, read_json, write_json
from t2t_keras.settings import override, setting, typed
from t2t_keras.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    import keras


@dataclasses.dataclass(frozen=True)
class TrainOptions:
    """How a run is watched and kept.

    Nothing here changes what a step computes, but for the masks of dropout, which are others with
    `xla` and with another `cpu_replicas`.

    Raises:
      UserError: options that need or exclude each other; see `train_options`.
    """

    save_checkpoints_secs: float = setting(
        600.0, "seconds of training between checkpoints, without evaluations", minimum=0
    )
    keep_checkpoint_max: int = setting(
        20, "checkpoints to keep; one more is on disk while one is written", minimum=1
    )
    local_eval_frequency: int = setting(
        1000, "steps between evaluations on the dev set; 0 = by time alone", minimum=0
    )
    # As often as a checkpoint is saved: a slow run is measured as often as it can be continued.
    eval_secs: float = setting(
        600.0,
        "seconds between evaluations, at first 60; 0 = by steps alone",
        minimum=0,
    )
    eval_steps: int = setting(0, "most batches of an evaluation; 0 = the whole dev set", minimum=0)
    eval_bleu: bool = setting(False, "score translations of the dev set: BLEU, or F1 of parses")
    best_by: str = setting(
        "loss",
        "criterion for the best weights: loss, or a score of eval_bleu, as chrf",
    )
    eval_early_stopping_steps: int = setting(
        0, "patience in steps; 0 = never stop early", minimum=0
    )
    schedule: str = setting(
        "train_and_evaluate",
        "train, evaluate, or both",
        choices=("train", "evaluate", "train_and_evaluate"),
    )
    warm_start_from: str = setting(
        "", "run or checkpoint to take the first weights from", is_path=True
    )
    adapt_vocabulary: bool = setting(
        False,
        "allow it another vocabulary; new pieces begin as means of old ones",
    )
    drop_layers: bool = setting(False, "allow it more layers; evenly spread ones are kept")
    xla: bool = setting(False, "compile the step with XLA for a few fixed shapes (JAX always does)")
    cpu_replicas: int = setting(
        1, "replicas that share a CPU's cores; 1 = one has all of them", minimum=1
    )
    profile_steps: tuple[int, ...] = setting(
        (), "first and last step to trace, as 100,110, counted from 1", minimum=1
    )
    worker_start_secs: float = setting(
        300.0, "seconds to wait for other workers to start", minimum=1
    )
    worker_timeout_secs: float = setting(
        60.0, "seconds without a heartbeat after which a worker counts as lost", minimum=1
    )

    def __post_init__(self) -> None:
        if self.best_by != "loss" and not self.eval_bleu:
            raise UserError(
                f"--best_by={self.best_by} needs scores of the dev set: give --eval_bleu as well.",
                code="conflicting_settings",
            )
        for name in ("adapt_vocabulary", "drop_layers"):
            if getattr(self, name) and not self.warm_start_from:
                raise UserError(f"--{name} needs --warm_start_from.", code="conflicting_settings")
        if self.adapt_vocabulary and self.drop_layers:
            raise UserError(
                "--adapt_vocabulary and --drop_layers exclude each other.",
                code="conflicting_settings",
            )
        if self.profile_steps and not self.profiled_steps():
            raise UserError(
                f"--profile_steps: expected the first and the last step to trace, as 100,110; got "
                f"{','.join(map(str, self.profile_steps))}.",
                code="bad_value",
            )

    def profiled_steps(self) -> range:
        """Returns the steps to trace, counted from 1."""
        steps = self.profile_steps
        return range(steps[0], steps[1] + 1) if len(steps) == 2 else range(0)

    def first_weights(self) -> dict[str, Any]:
        """Returns the options that say which weights a new run starts from; {} = fresh ones."""
        if not self.warm_start_from:
            return {}
        return {
            "warm_start_from": str(Path(self.warm_start_from).resolve()),
            "adapt_vocabulary": self.adapt_vocabulary,
            "drop_layers": self.drop_layers,
        }


def train_options(changes: Mapping[str, Any]) -> TrainOptions:
    """Returns options by name, over the defaults.

    Raises:
      UserError: no such option, a wrong type, a value out of range, or values that do not fit.
    """
    return override(TrainOptions(), changes, what="option")


@dataclasses.dataclass(frozen=True)
class TrainResult:
    """How a run ended.

    Attributes:
      step: optimizer steps done since the beginning of the run.
      checkpoint: the newest checkpoint's path.
      evaluation: the last scalars of the dev set, {} where there was no evaluation.
      signal: number of the signal that ended the run early, or 0.
      history: lists with an entry for each epoch of the run, those before it was continued too;
        see `t2t_keras.train`.
      model: the trained model, a `keras.Model`. With `ema_decay` it has the weights of the last
        step; `evaluation`, the history's "val_..." and `best/` are of their moving average.
    """

    step: int
    checkpoint: str
    evaluation: dict[str, float]
    signal: int
    history: dict[str, list[float]] = dataclasses.field(repr=False)
    model: Any = dataclasses.field(repr=False)


_FILE = "run.json"
_BYTES_OF_A_WEIGHT = 2  # At least, as bfloat16.
# Types of the values in run.json.
_KINDS = {
    **dict.fromkeys(("problem", "model", "hparams_set", "data_dir", "data"), str),
    **dict.fromkeys(("problem_config", "hparams", "vocabulary"), dict),
    "random_seed": int,
}
# Stands for the set that suits the data, or that of the run that is there.
AUTO = "auto"
# How long to train and how a step is split over memory do not change what a step computes; but see
# `RunConfig.compared`.
MAY_CHANGE = ("train_steps", "microbatch_tokens", "recompute")


@dataclasses.dataclass(frozen=True)
class RunConfig:
    """What a run is: it decides what every step computes.

    Attributes:
      problem: with its settings.
      hparams: resolved; they remember the name of their set.
      model: registered name.
      random_seed: of weights, dropout and order.
      data_dir: where the data stands; only a convenience for commands that read it again.
      data: checksum of the training data; "" until `with_data`.
      tokenizer: the vocabulary; None until `with_data`.
      averaged: number of checkpoints whose mean those of the run are; 1 = as training left them,
        None = unknown, as of a run older than this field.
      user_directories: those of --t2t_usr_dir when it was saved, which may register what it needs.
      first_weights: `TrainOptions.first_weights`, for a run that ends before its first checkpoint;
        not compared, and {} in a run older than this field.
    """

    problem: Problem
    hparams: HParams
    model: str = "transformer"
    random_seed: int = 1
    data_dir: str = ""
    data: str = ""
    tokenizer: Tokenizer | None = None
    averaged: int | None = 1
    user_directories: tuple[str, ...] = ()
    first_weights: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def hparams_set(self) -> str:
        """Registered name of the set that the hyperparameters started from."""
        return self.hparams.set_name

    @property
    def vocabulary(self) -> Tokenizer:
        """The tokenizer, for which the run must have one."""
        if self.tokenizer is None:
            raise ValueError("The run has no vocabulary yet: call `with_data` first.")
        return self.tokenizer

    def with_data(self, generated: Generated) -> "RunConfig":
        """Returns the run on this data, with the vocabulary and the settings decided there."""
        files = sorted(generated.manifest["files"].items())
        train_files = {name: file["sha256"] for name, file in files if name.startswith("train")}
        return dataclasses.replace(
            self,
            problem=generated.problem.with_vocabulary(generated.tokenizer),
            data_dir=str(Path(self.data_dir).resolve()),
            data=hashlib.sha256(json.dumps(train_files).encode("utf-8")).hexdigest(),
            tokenizer=generated.tokenizer,
        )

    def augmentation(self, generated: Generated) -> OnlineAugmentation:
        """Returns what draws the examples of training anew, where that is set."""
        drawn = self.hparams.subword_sampling, self.hparams.subword_nbest, self.problem.augment
        return OnlineAugmentation(
            generated.tokenizer, self.random_seed, *drawn, generated.augmentations
        )

    def make_model(self, weights_dtype: str = "float32", loaded: bool = False) -> "keras.Model":
        """Returns the model that the run trains, with fresh weights in `weights_dtype`.

        Before weights are `loaded`, perhaps a stranger's, their size is checked.
        """
        if loaded:
            self._check_size()
        with _named_directories(self.user_directories):
            size, of_source = self.vocabulary.vocab_size, self.vocabulary.source_vocab_size
            sizes = {"source_vocab_size": of_source} if of_source else {}
            model = registry.MODELS[self.model]
            return model.from_hparams(self.hparams, size, weights_dtype, **sizes)

    def _check_size(self) -> None:
        """Raises `UserError` if weights, perhaps of a stranger, need more memory than is free."""
        if self.model != "transformer" or (free := free_memory()) is None:
            return
        sizes = self.vocabulary.vocab_size, self.vocabulary.source_vocab_size
        count = self.hparams.count_weights(*sizes)
        if _BYTES_OF_A_WEIGHT * count > free:
            raise UserError(
                f"The run's hyperparameters describe a model of {count:,} weights, and "
                f"{free:,} bytes of memory are free. Is {_FILE} that of the checkpoint?",
                code="model_too_large",
            )

    def save(self, output_dir: str | Path) -> None:
        """Writes run.json and the vocabulary, each atomically."""
        self.vocabulary.save(output_dir)
        write_json(Path(output_dir) / _FILE, self.content())

    def content(self) -> dict[str, Any]:
        """Returns what run.json holds."""
        return {
            "problem": self.problem.name,
            "problem_config": self.problem.config(),
            "model": self.model,
            "hparams_set": self.hparams_set,
            "hparams": self.hparams.config(),
            "random_seed": self.random_seed,
            "data_dir": self.data_dir,
            "data": self.data,
            "averaged": self.averaged,
            "first_weights": dict(self.first_weights),
            "t2t_usr_dir": registry.user_directories or self.user_directories,
            "vocabulary": self.vocabulary.record(),
            "versions": installed_versions(),
        }

    @staticmethod
    def exists(output_dir: str | Path) -> bool:
        """Returns whether a run has been started in the directory."""
        return (Path(output_dir) / _FILE).exists()

    @classmethod
    def load(cls, output_dir: str | Path) -> "RunConfig":
        """Reads the run in a directory.

        Raises:
          UserError: there is none, it cannot be read, the vocabulary beside it is another one, or
            what it needs is registered in a directory that was not imported.
        """
        return cls.read(cls.file(output_dir), "Restore it, or give a new --output_dir.")

    @staticmethod
    def file(output_dir: str | Path) -> Path:
        """Returns the file of a run; raises `UserError` where there is none."""
        path = Path(output_dir) / _FILE
        if not path.exists():
            raise UserError(
                f"There is no run in --output_dir={output_dir}. {not_a_run(output_dir)}",
                code="no_run",
            )
        return path

    @classmethod
    def read(cls, path: Path, advice: str, checked: bool = True) -> "RunConfig":
        """Reads a file that has `content`, and may have more, beside the vocabulary.

        Args:
          path: of the file.
          advice: what errors end with.
          checked: whether hyperparameters are checked, for which Keras may be imported.

        Raises:
          UserError: as `load`.
        """
        content = read_json(path, advice)
        try:
            for name, kind in _KINDS.items():
                if not isinstance(content[name], kind):
                    raise TypeError(f"{name}: {brief(content[name])}")
            tokenizer = Tokenizer.load_saved(path.parent, content["vocabulary"])
            user_directories = tuple(map(str, content.get("t2t_usr_dir") or ()))
            with _named_directories(user_directories):
                problem = make_problem(content["problem"], content["problem_config"])
                hparams = _hparams(content["hparams_set"], content["hparams"], checked)
            return cls(
                problem=problem.with_vocabulary(tokenizer),
                hparams=hparams,
                tokenizer=tokenizer,
                averaged=content.get("averaged"),
                user_directories=user_directories,
                first_weights=dict(content.get("first_weights", {})),
                **{name: content[name] for name in ("model", "random_seed", "data_dir", "data")},
            )
        except UserError as error:
            raise UserError(f"{path}: {error}", code=error.code) from error
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            reason = f"{type(error).__name__}: {brief(error)}"
            raise UserError(
                f"Cannot read {path} ({reason}). {advice}", code="damaged_file"
            ) from error

    def compared(self) -> dict[str, Any]:
        """Returns, by name, what must not change for the steps to stay the same."""
        config = self.problem.config(of_test_set=False)
        hparams = self.hparams.config()
        compared = hparams.keys() - MAY_CHANGE
        if self.hparams.schedule == "cosine":
            compared.add("train_steps")  # All its rates depend on the last step.
        return {
            "problem": self.problem.name,
            **{f"problem_config {name}": value for name, value in config.items()},
            "model": self.model,
            **{name: value for name, value in hparams.items() if name in compared},
            "random_seed": self.random_seed,
            "vocabulary": self.vocabulary.checksum[:12],
            "training data": self.data[:12],
        }

    def check_unchanged(self, requested: "RunConfig", output_dir: str | Path) -> None:
        """Checks that what is requested computes the same steps as this run.

        Raises:
          UserError: it does not; each difference is named.
        """
        if lines := "\n  ".join(differences(self.compared(), requested.compared())):
            raise UserError(
                f"--output_dir={output_dir} contains a run with different settings:\n  {lines}\n"
                f"Leave these flags out to use that run, start another one from its weights in a "
                f"new --output_dir with --warm_start_from={output_dir}, or remove it to train "
                f"anew.",
                code="other_settings",
            )


def _hparams(hparams_set: str, values: Mapping[str, Any], checked: bool) -> HParams:
    """Returns recorded hyperparameters; those with fields of their own as their set has them."""
    sets, own = registry.HPARAMS_SETS, set(values) - set(HParams().config())
    kind = type(sets[hparams_set]()) if own or hparams_set in sets else HParams
    if unknown := set(values) - {field.name for field in dataclasses.fields(kind)}:
        raise UserError(
            f"The run has hyperparameters that are not known: {', '.join(sorted(unknown))}. Was it "
            f"made by another version of t2t_keras? run.json names it.",
            code="unknown_name",
        )
    values = typed(kind, values, "hyperparameter")
    hparams = kind(**values, set_name=hparams_set)
    # Names of what is registered are checked where the directories can still be said.
    return override_hparams(hparams, {}) if checked else hparams


@contextlib.contextmanager
def _named_directories(directories: Sequence[str]) -> Iterator[None]:
    """Adds to the error of a missing name which of these directories were not imported."""
    try:
        yield
    except UserError as error:
        missing = [each for each in directories if each not in registry.user_directories]
        if not missing:
            raise
        flags, calls = (
            " ".join(form.format(each) for each in missing)
            for form in ("--t2t_usr_dir={}", "t2t_keras.import_user_directory({!r})")
        )
        raise UserError(
            f"The run was made with {flags}: please give it, or call {calls} from Python. {error}",
            code="missing_user_directory",
        ) from error


def merge_flags(
    recorded: RunConfig | None,
    given: Mapping[str, Any],
    recommend: Callable[[Problem, str], HParams] | None = None,
) -> RunConfig:
    """Returns the requested run: the flags that were given, over what is recorded.

    `recorded` is the run that is there; `given` has, of the flags problem, problem_config, model,
    hparams_set, hparams, random_seed, data_dir and train_steps, those given. `recommend` returns
    what --hparams_set=auto is for a problem and a data_dir, if nothing is recorded.
    """
    given = {name: value for name, value in given.items() if value not in (None, "", {})}
    name, config = given.get("problem", ""), given.get("problem_config", {})
    if recorded and name in ("", recorded.problem.name):
        name = recorded.problem.name
        config = recorded.problem.config() | config
    problem = make_problem(name, config)
    hparams_set, changes = given.get("hparams_set", ""), given.get("hparams", {})
    if "train_steps" in given:
        changes = {**changes, "train_steps": given["train_steps"]}
    if recorded and hparams_set in ("", AUTO, recorded.hparams_set):
        hparams = override_hparams(recorded.hparams, changes) if changes else recorded.hparams
    elif recommend and hparams_set == AUTO:
        hparams = override_hparams(recommend(problem, given["data_dir"]), changes)
    else:
        hparams = hyperparameters.hparams(hparams_set, changes)
    fields = {key: given[key] for key in ("model", "random_seed", "data_dir") if key in given}
    if not recorded:
        return RunConfig(problem, hparams, **fields)
    problem = problem.with_vocabulary(recorded.vocabulary)
    return dataclasses.replace(recorded, problem=problem, hparams=hparams, **fields)
