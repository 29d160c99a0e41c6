"""Derives texts, data, models and estimated hours from the recipe's configuration."""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from snakemake.exceptions import WorkflowError
from snakemake.utils import validate

from t2t_keras import hyperparameters
from t2t_keras.decoding.config import DecodeConfig, decode_config
from t2t_keras.environment import expand_path
from t2t_keras.errors import UserError, translated_errors
from t2t_keras.hyperparameters import HParams
from t2t_keras.settings import as_assignments, as_text

PROBLEM = "parallel_text"
# European languages have about four letters per subword.
_TOKENS_PER_BYTE = 0.25
# A training step computes at least three products per weight and token. On a CPU, with
# transformer_small and 2 to 4 layers, it takes as long as 4.2 to 4.7 products.
_TRAINING_PRODUCTS = 4.5
_MAX_MESSAGE = 500  # characters
_SCHEMA = Path(__file__).with_name("schema.yaml")


@dataclasses.dataclass(frozen=True)
class Data:
    """Data of `t2t-datagen`.

    Attributes:
      languages: source and target.
      train: names of the texts.
      vocabulary: name of the data whose vocabulary is used; "" = its own.
      tags: control tokens before the sources of texts, by name of the text.
    """

    languages: tuple[str, str]
    train: tuple[str, ...]
    vocabulary: str = ""
    tags: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Model:
    """A model to train.

    Attributes:
      data: name of its data.
      settings: its part of the configuration.
      flags: flags of `t2t-trainer` for hyperparameters, steps and seed.
      mix: shares of its corpora.
      warm_start_from: folder of the averaged model to warm-start from; "" = none.
    """

    data: str
    settings: Mapping[str, Any]
    flags: tuple[str, ...]
    mix: Mapping[str, float] = dataclasses.field(default_factory=dict)
    warm_start_from: str = ""


class Plan:
    """The plan that the rules of the Snakefile follow.

    Args:
      config: content of the configuration file.
      folder: folder of the file; paths in the file are relative to it.

    Attributes:
      config: the configuration with defaults.
      folder: folder of the configuration file.
      work: folder of all results, relative to `folder`.
      source, target: the languages.
      user_files: path of a text in the recipe's folder -> path of the user's file.
      authentic: names of the texts that people translated, with noisy corpora after filtering.
      data: `Data` by name.
      models: `Model` by name.
      teachers: names of the models of the ensemble.

    Raises:
      UserError: a setting is unknown, missing or of another type; or a text is missing.
    """

    def __init__(self, config: Mapping[str, Any], folder: str | Path = "."):
        self.config = config = _expanded(_checked(config))
        self.work, self.folder = config["work_dir"], Path(folder)
        self.source, self.target = config["source_language"], config["target_language"]
        if self.source == self.target:
            raise UserError(
                f"The two languages must differ, got {self.source} twice.", code="bad_value"
            )
        if duplicates := config["corpora"].keys() & config["noisy"].keys():
            raise UserError(
                f"{', '.join(sorted(duplicates))}: the same name in corpora and noisy. Rename one.",
                code="given_twice",
            )
        self.noisy = {name: keep for name, (_, keep) in config["noisy"].items()}
        noisy = {name: path for name, (path, _) in config["noisy"].items()}
        dev = {f"dev.{name}": path for name, path in config["dev"].items()}
        self.dev = list(dev)
        pairs = config["corpora"] | noisy | dev
        self.user_files = {
            self.text(name, code): f"{path}.{code}"
            for name, path in pairs.items()
            for code in (self.source, self.target)
        }
        self.back_translated = {f"bt.{name}": name for name in config["monolingual"]}
        for name, path in config["monolingual"].items():
            self.user_files[self.text(f"bt.{name}", self.target)] = f"{path}.{self.target}"
        self._check_texts()
        self.authentic = [*config["corpora"], *(f"clean.{name}" for name in noisy)]
        self.distilled = [f"distilled.{name}" for name in self.authentic]
        self.teachers = [f"teacher{seed}" for seed in config["teachers"]["seeds"]]
        self.data = self._data()
        self.models = self._models()

    def text(self, name: str, language: str) -> str:
        """Returns the path of one side of a text."""
        return f"{self.work}/text/{name}.{language}"

    def pair(self, name: str) -> list[str]:
        """Returns the paths of both sides of a text."""
        return [self.text(name, self.source), self.text(name, self.target)]

    def manifest(self, data: str) -> str:
        """Returns the file that marks complete data."""
        return f"{self.work}/data/{data}/{PROBLEM}/manifest.json"

    def problem_config(self, name: str, mix: Mapping[str, float] | None = None) -> str:
        """Returns the --problem_config of data, with a mixture for training."""
        data = self.data[name]
        settings = {
            "source_language": data.languages[0],
            "target_language": data.languages[1],
            "train": data.train,
            "dev": self.dev[0],
            "filters": self.config["filters"],
            "source_tokens": data.tags,
            "mix": mix,
        }
        if data.vocabulary:
            folder = Path(self.manifest(data.vocabulary)).parent
            settings["vocab_file"] = str(folder / "vocab.model")
        else:
            settings["vocab_size"] = self.config["vocab_size"]
            settings["vocab_symbols"] = self.config["back_translation"]["tag"]
        return as_assignments({name: value for name, value in settings.items() if value})

    @property
    def user_flags(self) -> list[str]:
        """The flag for commands that do not find the user's directory in a run."""
        directory = self.config["t2t_usr_dir"]
        return [f"--t2t_usr_dir={directory}"] * bool(directory)

    def training_flags(self, name: str) -> list[str]:
        """Returns the flags of `t2t-trainer` for a model, except --output_dir."""
        model = self.models[name]
        config = self.problem_config(model.data, model.mix)
        folder = f"{self.work}/data/{model.data}"
        return [
            f"--problem={PROBLEM}",
            f"--data_dir={folder}",
            f"--problem_config={config}",
            *model.flags,
            *[f"--warm_start_from={model.warm_start_from}", "--drop_layers"]
            * bool(model.warm_start_from),
        ]

    @property
    def saving_flags(self) -> list[str]:
        """Flags of `t2t-trainer` that may change without restarting a finished training."""
        return [
            f"--save_checkpoints_secs={self.config['save_checkpoints_secs']}",
            f"--keep_checkpoint_max={max(self.config['average'], 2)}",
            *self.trainer_flags,
        ]

    @property
    def trainer_flags(self) -> list[str]:
        """The user's flags of `t2t-trainer`."""
        return [f"--{name}={_spell(value)}" for name, value in self.config["trainer_flags"].items()]

    @property
    def teacher_folders(self) -> list[str]:
        """The folders of the models that translate for the student."""
        kind = "exports" if len(self.teachers) == 1 else "models"
        return [f"{self.work}/{kind}/{name}" for name in self.teachers]

    @property
    def teacher_flags(self) -> list[str]:
        """Flags of `t2t-decoder`: the teachers, as an ensemble if there are several."""
        first, *more_teachers = self.teacher_folders
        engine_flag = (
            f"--ensemble={','.join(more_teachers)}" if more_teachers else "--engine=ctranslate2"
        )
        return [f"--output_dir={first}", engine_flag]

    @property
    def judge(self) -> str:
        """The model that scores the teachers' translations, to filter them."""
        backward = self.config["distillation"]["filter"] == "backward"
        return "backward" if backward else self.teachers[0]

    @property
    def outputs(self) -> list[str]:
        """All files and folders that the recipe writes."""
        files = [self.manifest(name) for name in self.data]
        for name in self.models:
            files += [f"{self.work}/runs/{name}.trained"]
            files += [f"{self.work}/{kind}/{name}" for kind in ("models", "exports")]
        clean = [f"clean.{name}" for name in self.noisy]
        for name in (*clean, *self.back_translated, *self.distilled):
            files += self.pair(name)
        texts = self.authentic + self.dev * (len(self.teachers) > 1)
        files += [f"{self.work}/translated/{name}.{self.target}" for name in texts]
        pages = [f"{self.work}/evaluation/{name}" for name in self.dev]
        return files + [f"{page}.{kind}" for page in pages for kind in ("html", "json")]

    @property
    def compared_models(self) -> list[str]:
        """Names of the models to compare, the baseline first."""
        return ["baseline"] * self.config["baseline"] + ["student", *self.teachers]

    @property
    def _needs_backward(self) -> bool:
        return bool(self.back_translated) or self.judge == "backward"

    def _data(self) -> dict[str, Data]:
        languages = self.source, self.target
        corpora, back = tuple(self.config["corpora"]), tuple(self.back_translated)
        tag = self.config["back_translation"]["tag"]
        train_texts = self.authentic * self.config["distillation"]["with_corpora"] + self.distilled
        data = {
            "forward": Data(languages, tuple(self.authentic)),
            "student": Data(languages, tuple(train_texts), "forward"),
        }
        if self._needs_backward:
            data["backward"] = Data(languages[::-1], tuple(self.authentic), "forward")
        if back:
            tags = {name: tag for name in back if tag}
            data["teacher"] = Data(languages, (*self.authentic, *back), "forward", tags)
        if self.noisy:
            data["filter.forward"] = Data(languages, corpora)
            data["filter.backward"] = Data(languages[::-1], corpora, "filter.forward")
        return data

    def _models(self) -> dict[str, Model]:
        config = self.config
        student = self._model("student", config["student"])
        if config["student"]["from_teacher"]:
            first_teacher = f"{self.work}/models/{self.teachers[0]}"
            student = dataclasses.replace(student, warm_start_from=first_teacher)
        models = {"student": student}
        if self._needs_backward:
            models["backward"] = self._model("backward", config["backward"])
        data = "teacher" if self.back_translated else "forward"
        for seed, name in zip(config["teachers"]["seeds"], self.teachers, strict=True):
            models[name] = self._model(data, config["teachers"], seed, config["mix"])
        if config["baseline"]:
            models["baseline"] = dataclasses.replace(student, data="forward")
        if self.noisy:
            for name in ("filter.forward", "filter.backward"):
                models[name] = self._model(name, config["backward"])
        return models

    def _model(
        self,
        data: str,
        settings: Mapping[str, Any],
        seed: int = 1,
        mix: Mapping[str, float] | None = None,
    ) -> Model:
        flags = [f"--hparams_set={settings['hparams_set']}"]
        if settings["hparams"]:
            flags += [f"--hparams={as_assignments(settings['hparams'])}"]
        flags += [f"--train_steps={settings['train_steps']}", f"--random_seed={seed}"]
        return Model(data, settings, tuple(flags), mix or {})

    def _check_texts(self) -> None:
        for path in self.user_files.values():
            file = self.folder / path
            if not file.is_file():
                raise UserError(
                    f"There is no {file}: expected UTF-8 text, one sentence per line. The "
                    f"configuration names it without its language, as {{name: text/train}}.",
                    code="missing_source_files",
                )

    def hours(self, seconds_per_product: float) -> dict[str, float]:
        """Returns the estimated hours to make the slowest files.

        Per weight and token, training takes `_TRAINING_PRODUCTS` products, scoring one, and
        translating one for each hypothesis.

        Args:
          seconds_per_product: seconds of a multiply-add on this machine.
        """
        sizes, products = self._sizes(), dict[str, float]()
        for name, (weights, num_tokens) in sizes.items():
            products[f"{self.work}/runs/{name}.trained"] = _TRAINING_PRODUCTS * weights * num_tokens
        for name in self.back_translated:
            products_per_token = self._hypotheses("back_translation") * sizes["backward"][0]
            products[self.text(name, self.source)] = products_per_token * self._tokens(name)
        teacher_weights = sum(sizes[name][0] for name in self.teachers)
        for name in self.authentic:
            tokens = self._tokens(name.removeprefix("clean."))
            translated = f"{self.work}/translated/{name}.{self.target}"
            products[translated] = self._hypotheses("distillation") * teacher_weights * tokens
            products[self.text(f"distilled.{name}", self.target)] = sizes[self.judge][0] * tokens
        for name in self.noisy:
            filter_weights = 2 * sizes["filter.forward"][0]
            products[self.text(f"clean.{name}", self.target)] = filter_weights * self._tokens(name)
        return {file: seconds_per_product * count / 3600 for file, count in products.items()}

    def _sizes(self) -> dict[str, tuple[int, int]]:
        """Returns each model's numbers of weights and of training tokens."""
        sizes = {}
        for name, model in self.models.items():
            hparams = self.hparams(name)
            tokens = hparams.batch_tokens * model.settings["train_steps"]
            sizes[name] = hparams.count_weights(self.config["vocab_size"]), tokens
        return sizes

    def hparams(self, model: str) -> HParams:
        """Returns the hyperparameters of a model."""
        settings = self.models[model].settings
        return hyperparameters.hparams(settings["hparams_set"], settings["hparams"])

    def decoding_flag(self, part: str) -> str:
        """Returns the flag of `t2t-decoder` with the settings of a part of the recipe."""
        return f"--decode_hparams={as_assignments(self.config[part]['decode_hparams'])}"

    def decoding(self, part: str) -> DecodeConfig:
        """Returns the decoding settings of a part of the recipe."""
        return decode_config(self.config[part]["decode_hparams"])

    def _hypotheses(self, part: str) -> int:
        """Returns the number of hypotheses in the search of a part of the recipe."""
        config = self.decoding(part)
        return config.samples or config.beam_size

    def _tokens(self, name: str) -> float:
        """Returns the estimated number of tokens of a text on one side."""
        sides = (self.user_files.get(side) for side in self.pair(name))
        path = next(filter(None, sides))
        return _TOKENS_PER_BYTE * (self.folder / path).stat().st_size


def _spell(value: Any) -> str:
    """Spells the value of a flag, with commas in lists."""
    if isinstance(value, list):
        return ",".join(map(_spell, value))
    return value if isinstance(value, str) else as_text(value)


def _expanded(value: Any) -> Any:
    """Replaces a leading ~ by the home directory in all strings of a setting."""
    if isinstance(value, Mapping):
        return {name: _expanded(part) for name, part in value.items()}
    if isinstance(value, list):
        return list(map(_expanded, value))
    return expand_path(value) if isinstance(value, str) else value


def _checked(config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a copy with defaults; raises `UserError` if it violates the schema."""
    text = "The configuration does not consist of names, texts and numbers"
    with translated_errors((TypeError, ValueError), text, code="bad_configuration"):
        # Unlike deepcopy, this separates YAML aliases of one object, so that each gets defaults.
        # NaN would pass every limit.
        checked = json.loads(json.dumps(dict(config), default=str, allow_nan=False))
    try:
        validate(checked, str(_SCHEMA))
    except WorkflowError as error:
        fault: Any = error.__context__  # jsonschema's ValidationError; or the schema is not there.
        if not hasattr(fault, "absolute_path"):
            raise UserError(str(error), code="bad_configuration") from error
        place, message = "".join(f"[{part!r}]" for part in fault.absolute_path), fault.message
        if len(message) > _MAX_MESSAGE:
            message = f"{message[: _MAX_MESSAGE // 2]} ... {message[-_MAX_MESSAGE // 2 :]}"
        # YAML reads a bare no, the code of Norwegian, as false.
        advice = " Put it into quotes." * message.endswith("is not of type 'string'")
        raise UserError(
            f"The configuration{place}: {message}.{advice}", code="bad_configuration"
        ) from error
    return checked
