"""The config of a run (run.json in its directory), and the options and result of training."""

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
from t2t_keras.errors import UserError, shorten
from t2t_keras.hyperparameters import HParams, override_hparams
from t2t_keras.io.files import RUN_FILE, differences, not_a_run, read_json, write_json
from t2t_keras.settings import convert_all, override, setting
from t2t_keras.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    import keras


@dataclasses.dataclass(frozen=True)
class TrainOptions:
    """How a run is evaluated, saved and started.

    No option changes the result of a step, except that dropout masks depend on `xla` and
    `cpu_replicas`.

    Raises:
      UserError: options that need or exclude each other; see `train_options`.
    """

    save_checkpoints_secs: float = setting(
        600.0, "seconds of training between checkpoints, evaluations not counted", minimum=0
    )
    keep_checkpoint_max: int = setting(
        20,
        "checkpoints to keep, besides best/; needs disk space for one more",
        minimum=1,
    )
    local_eval_frequency: int = setting(
        1000, "steps between evaluations on the dev set; 0 = by time alone", minimum=0
    )
    # The same default as save_checkpoints_secs: a slow run is evaluated as often as saved.
    eval_secs: float = setting(
        600.0,
        "maximum seconds of training between evaluations (60 before the first); 0 = by steps alone",
        minimum=0,
    )
    eval_steps: int = setting(
        0, "maximum number of dev batches per evaluation; 0 = the whole dev set", minimum=0
    )
    eval_bleu: bool = setting(
        False, "also translate the dev set and compute BLEU (for parsing, F1)"
    )
    best_by: str = setting(
        "loss",
        "dev metric that selects best/: loss, or with --eval_bleu a score such as bleu or chrf",
    )
    eval_early_stopping_steps: int = setting(
        0, "stop if --best_by has not improved for this number of steps; 0 = never", minimum=0
    )
    schedule: str = setting(
        "train_and_evaluate",
        "train, evaluate the newest checkpoint, or both",
        choices=("train", "evaluate", "train_and_evaluate"),
    )
    warm_start_from: str = setting(
        "", "run or checkpoint to take the initial weights from", is_path=True
    )
    adapt_vocabulary: bool = setting(
        False,
        "allow another vocabulary; its new pieces start as means of old ones",
    )
    drop_layers: bool = setting(
        False, "allow fewer layers; evenly spread ones of the old model are used"
    )
    xla: bool = setting(False, "compile steps with XLA, for one batch shape; JAX always does")
    cpu_replicas: int = setting(
        1, "number of replicas on a CPU, which share its cores and each batch", minimum=1
    )
    profile_steps: tuple[int, ...] = setting(
        (), "first and last step to trace for TensorBoard's profiler, as 100,110", minimum=1
    )
    worker_start_secs: float = setting(
        300.0, "seconds to wait for the other workers (machines) to start", minimum=1
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
                "--adapt_vocabulary and --drop_layers exclude each other. Leave one out.",
                code="conflicting_settings",
            )
        if self.profile_steps and not self.profiled_steps():
            raise UserError(
                f"--profile_steps: expected the first and last step to trace, such as 100,110; got "
                f"{','.join(map(str, self.profile_steps))}.",
                code="bad_value",
            )

    def profiled_steps(self) -> range:
        """Returns the steps to trace, counted from 1."""
        steps = self.profile_steps
        return range(steps[0], steps[1] + 1) if len(steps) == 2 else range(0)

    def first_weights(self) -> dict[str, Any]:
        """Returns the options that select the initial weights of a new run; {} = random weights."""
        if not self.warm_start_from:
            return {}
        return {
            "warm_start_from": str(Path(self.warm_start_from).resolve()),
            "adapt_vocabulary": self.adapt_vocabulary,
            "drop_layers": self.drop_layers,
        }


def train_options(changes: Mapping[str, Any]) -> TrainOptions:
    """Returns the default options with `changes`: new values by name.

    Raises:
      UserError: no such option, a wrong type, a value out of range, or values that conflict.
    """
    return override(TrainOptions(), changes, noun="option")


@dataclasses.dataclass(frozen=True)
class TrainResult:
    """How a run ended.

    Attributes:
      step: optimizer steps since the beginning of the run.
      checkpoint: path of the newest checkpoint.
      evaluation: scalars of the last evaluation on the dev set; {} = none.
      signal: number of the signal that ended the run early, or 0.
      history: lists with an entry for each epoch since the beginning of the run; see
        `t2t_keras.train`.
      model: the trained model, a `keras.Model`. With `ema_decay` it has the weights of the last
        step, while `evaluation`, the history's "val_..." and `best/` are of the moving average.
    """

    step: int
    checkpoint: str
    evaluation: dict[str, float]
    signal: int
    history: dict[str, list[float]] = dataclasses.field(repr=False)
    model: Any = dataclasses.field(repr=False)


_MIN_BYTES_PER_WEIGHT = 2  # the size in bfloat16
# Types of the values in run.json.
_TYPES = {
    **dict.fromkeys(("problem", "model", "hparams_set", "data_dir", "data"), str),
    **dict.fromkeys(("problem_config", "hparams", "vocabulary"), dict),
    "random_seed": int,
}
# Instead of the name of a set: choose a set automatically, or reuse the run's.
AUTO = "auto"
# The length of training and the split of a step do not change a step's result, with an exception
# in `RunConfig.resume_invariants`.
CHANGEABLE_ON_RESUME = ("train_steps", "microbatch_tokens", "recompute")


@dataclasses.dataclass(frozen=True)
class RunConfig:
    """The config of a run: everything that determines the results of its steps.

    Attributes:
      problem: the problem with its settings.
      hparams: the hyperparameters, with the name of their set.
      model: registered name of the model.
      random_seed: seed of the initial weights, dropout and data order.
      data_dir: folder of the data, for commands that read it again.
      data: checksum of the training data; "" until `with_data`.
      tokenizer: the vocabulary; None until `with_data`.
      averaged: number of checkpoints whose mean the run holds; 1 = not averaged, None = unknown, in
        a run older than this field.
      user_directories: --t2t_usr_dir of the training, which may register names that the run needs.
      first_weights: `TrainOptions.first_weights`, for a run that ends before its first checkpoint;
        {} in a run older than this field.
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
        """Registered name of the set that the hyperparameters are based on."""
        return self.hparams.set_name

    @property
    def vocabulary(self) -> Tokenizer:
        """The tokenizer; the run must have one."""
        if self.tokenizer is None:
            raise ValueError("The run has no vocabulary yet: call `with_data` first.")
        return self.tokenizer

    def with_data(self, generated: Generated) -> "RunConfig":
        """Returns the run completed with the data's vocabulary, checksum and resolved settings."""
        files = sorted(generated.manifest["files"].items())
        train_files = {name: file["sha256"] for name, file in files if name.startswith("train")}
        return dataclasses.replace(
            self,
            problem=generated.problem.with_vocabulary(generated.tokenizer),
            data_dir=str(Path(self.data_dir).resolve()),
            data=hashlib.sha256(json.dumps(train_files).encode("utf-8")).hexdigest(),
            tokenizer=generated.tokenizer,
        )

    def with_batching(self, batching: str) -> "RunConfig":
        """Returns the run with batching=auto replaced."""
        if self.hparams.batching != "auto":
            return self
        return dataclasses.replace(
            self, hparams=dataclasses.replace(self.hparams, batching=batching)
        )

    @property
    def vocab_sizes(self) -> tuple[int, int | None]:
        """Size of the vocabulary, and of the source's own vocabulary or None."""
        return self.vocabulary.vocab_size, self.vocabulary.source_vocab_size

    def augmentation(self, generated: Generated) -> OnlineAugmentation | None:
        """Returns the online augmentation of the training examples; None = they stay the same."""
        if not (self.problem.augment or self.hparams.subword_sampling):
            return None
        return OnlineAugmentation(
            generated.tokenizer,
            self.random_seed,
            self.hparams.subword_sampling,
            self.hparams.subword_nbest,
            self.problem.augment,
            generated.augmentations,
        )

    def make_model(self, weights_dtype: str = "float32", will_load: bool = False) -> "keras.Model":
        """Returns the run's model, with random weights in `weights_dtype`.

        With `will_load`, the caller will load weights, maybe of an untrusted run, so their
        size is checked first.
        """
        vocab_size = self.vocabulary.vocab_size
        source_vocab_size = self.vocabulary.source_vocab_size
        if will_load and self.model == "transformer":
            _check_memory(self.hparams.count_weights(vocab_size, source_vocab_size))
        with _name_missing_directories(self.user_directories):
            # User models may not accept source_vocab_size.
            sizes = {"source_vocab_size": source_vocab_size} if source_vocab_size else {}
            model = registry.MODELS[self.model]
            return model.from_hparams(self.hparams, vocab_size, weights_dtype, **sizes)

    def save(self, output_dir: str | Path) -> None:
        """Writes run.json and the vocabulary, each atomically."""
        self.vocabulary.save(output_dir)
        write_json(Path(output_dir) / RUN_FILE, self.content())

    def content(self) -> dict[str, Any]:
        """Returns the content of run.json."""
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
        return (Path(output_dir) / RUN_FILE).exists()

    @classmethod
    def load(cls, output_dir: str | Path) -> "RunConfig":
        """Reads the run in a directory.

        Raises:
          UserError: there is no run, it cannot be read, its vocabulary has changed, or it needs
            names of a user's directory that was not imported.
        """
        return cls.read(cls.file(output_dir))

    @staticmethod
    def file(output_dir: str | Path) -> Path:
        """Returns the file of a run; raises `UserError` if there is none."""
        path = Path(output_dir) / RUN_FILE
        if not path.exists():
            raise UserError(
                f"There is no run in --output_dir={output_dir}. {not_a_run(output_dir)}",
                code="no_run",
            )
        return path

    @classmethod
    def read(
        cls,
        path: Path,
        advice: str = "Restore it, or give a new --output_dir.",
        check_hparams: bool = True,
    ) -> "RunConfig":
        """Reads a file with (at least) the `content` of run.json, next to the vocabulary.

        Args:
          path: the file.
          advice: end of error messages.
          check_hparams: whether to check hyperparameters, which may import Keras.

        Raises:
          UserError: as `load`.
        """
        content = read_json(path, advice)
        try:
            for name, expected_type in _TYPES.items():
                if not isinstance(content[name], expected_type):
                    raise TypeError(f"{name}: {shorten(content[name])}")
            tokenizer = Tokenizer.load_saved(path.parent, content["vocabulary"])
            user_directories = tuple(map(str, content.get("t2t_usr_dir") or ()))
            with _name_missing_directories(user_directories):
                problem = make_problem(content["problem"], content["problem_config"])
                hparams = _read_hparams(content["hparams_set"], content["hparams"], check_hparams)
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
            reason = f"{type(error).__name__}: {shorten(error)}"
            raise UserError(
                f"Cannot read {path} ({reason}). {advice}", code="damaged_file"
            ) from error

    def resume_invariants(self) -> dict[str, Any]:
        """Returns the settings that must not change when the run continues, by name."""
        config = self.problem.config(of_test_set=False)
        hparams = self.hparams.config()
        names = hparams.keys() - CHANGEABLE_ON_RESUME
        if self.hparams.schedule == "cosine":
            names.add("train_steps")  # All learning rates depend on the last step.
        return {
            "problem": self.problem.name,
            **{f"problem_config {name}": value for name, value in config.items()},
            "model": self.model,
            **{name: value for name, value in hparams.items() if name in names},
            "random_seed": self.random_seed,
            "vocabulary": self.vocabulary.checksum[:12],
            "training data": self.data[:12],
        }

    def check_unchanged(self, requested: "RunConfig", output_dir: str | Path) -> None:
        """Raises `UserError` with all differences if `requested` would change the steps."""
        mismatches = differences(self.resume_invariants(), requested.resume_invariants())
        if lines := "\n  ".join(mismatches):
            raise UserError(
                f"--output_dir={output_dir} contains a run with different settings:\n  {lines}\n"
                f"To use that run, leave the flags of these settings out. To start a new run from "
                f"its weights, give a new --output_dir and --warm_start_from={output_dir}. To "
                f"start over, remove that directory.",
                code="other_settings",
            )


def _read_hparams(name: str, values: Mapping[str, Any], check: bool) -> HParams:
    """Returns recorded hyperparameters, in the class of their set, which may have extra fields."""
    hparams_class = HParams
    extra_fields = values.keys() - {field.name for field in dataclasses.fields(HParams)}
    if extra_fields or name in registry.HPARAMS_SETS:
        hparams_class = type(registry.HPARAMS_SETS[name]())
    if unknown := values.keys() - {field.name for field in dataclasses.fields(hparams_class)}:
        raise UserError(
            f"The run has unknown hyperparameters: {', '.join(sorted(unknown))}. Use the version "
            f"of t2t_keras that made it, which {RUN_FILE} names.",
            code="unknown_name",
        )
    values = convert_all(hparams_class, values, "hyperparameter")
    hparams = hparams_class(**values, set_name=name)
    # Check registered names here, where errors name the user's directories.
    return override_hparams(hparams, {}) if check else hparams


def _check_memory(count: int) -> None:
    """Raises `UserError` if this number of weights needs more memory than is free."""
    free = free_memory()
    if free is not None and _MIN_BYTES_PER_WEIGHT * count > free:
        raise UserError(
            f"The run's hyperparameters describe a model of {count:,} weights, but only "
            f"{free:,} bytes of memory are free. Check that {RUN_FILE} belongs to the checkpoint, "
            f"or use more memory.",
            code="model_too_large",
        )


@contextlib.contextmanager
def _name_missing_directories(directories: Sequence[str]) -> Iterator[None]:
    """Makes the error for a missing name list the user's directories that were not imported."""
    try:
        yield
    except UserError as error:
        missing = [path for path in directories if path not in registry.user_directories]
        if not missing:
            raise
        flags, calls = (
            " ".join(template.format(path) for path in missing)
            for template in ("--t2t_usr_dir={}", "t2t_keras.import_user_directory({!r})")
        )
        raise UserError(
            f"The run was made with {flags}: give it too, or call {calls} in Python. {error}",
            code="missing_user_directory",
        ) from error


def merge_flags(
    recorded: RunConfig | None,
    flags: Mapping[str, Any],
    recommend: Callable[[Problem, str], HParams] | None = None,
) -> RunConfig:
    """Returns the requested run: flags override the recorded run, if there is one.

    `flags` may have problem, problem_config, model, hparams_set, hparams, random_seed, data_dir and
    train_steps; empty values are ignored. `recommend` resolves --hparams_set=auto for a problem and
    a data_dir if there is no recorded run.
    """
    flags = {name: value for name, value in flags.items() if value not in (None, "", {})}
    name, config = flags.get("problem", ""), flags.get("problem_config", {})
    if recorded and name in ("", recorded.problem.name):
        name = recorded.problem.name
        config = recorded.problem.config() | config
    problem = make_problem(name, config)
    hparams_set, changes = flags.get("hparams_set", ""), flags.get("hparams", {})
    if "train_steps" in flags:
        changes = {**changes, "train_steps": flags["train_steps"]}
    if recorded and hparams_set in ("", AUTO, recorded.hparams_set):
        hparams = override_hparams(recorded.hparams, changes) if changes else recorded.hparams
    elif recommend and hparams_set == AUTO:
        hparams = override_hparams(recommend(problem, flags["data_dir"]), changes)
    else:
        hparams = hyperparameters.hparams(hparams_set, changes)
    fields = {key: flags[key] for key in ("model", "random_seed", "data_dir") if key in flags}
    if not recorded:
        return RunConfig(problem, hparams, **fields)
    problem = problem.with_vocabulary(recorded.vocabulary)
    return dataclasses.replace(recorded, problem=problem, hparams=hparams, **fields)
