"""What a run used, kept in its output directory, so that no flag need be repeated."""

import dataclasses
import json
from pathlib import Path
from typing import Any

from t2t_keras import registry
from t2t_keras.data.atomic_file import write_atomically
from t2t_keras.data.problem import Problem
from t2t_keras.data.tokenizer import Tokenizer
from t2t_keras.errors import UserError
from t2t_keras.hyperparameters import HParams
from t2t_keras.versions import installed_versions

_FILE = "run.json"
_VOCABULARY = "vocab.model"
# How long to train and how a step is split over memory do not change what a step computes.
MAY_CHANGE = ("train_steps", "microbatch_tokens", "recompute")


@dataclasses.dataclass(frozen=True)
class RunRecord:
    """What a run used.

    Attributes:
      problem: with its settings.
      model: registered name.
      hparams_set: registered name.
      hparams: resolved.
      random_seed: of weights, dropout and order.
      data_dir: where the data stood; only a convenience for commands that read it again.
      data: checksum of the training data.
      tokenizer: the vocabulary.
      averaged: of how many checkpoints those of the run are the mean; 1 = they are as training left
        them, None = not known, as of a run of before this was written.
    """

    problem: Problem
    model: str
    hparams_set: str
    hparams: HParams
    random_seed: int
    data_dir: str
    data: str
    tokenizer: Tokenizer
    averaged: int | None = 1

    def __post_init__(self):
        # Here the vocabulary meets the problem, whoever scores or finishes outputs with it later.
        object.__setattr__(self, "problem", self.problem.with_vocabulary(self.tokenizer))

    def make_model(self, weights_dtype: str = "float32"):
        """Returns the model that the run trains, with fresh weights.

        Args:
          weights_dtype: see `Transformer.from_hparams`.
        """
        return registry.model(self.model).from_hparams(
            self.hparams, self.tokenizer.vocab_size, weights_dtype
        )

    def save(self, output_dir: str | Path) -> None:
        """Writes the record and the vocabulary, each atomically."""
        directory = Path(output_dir)
        directory.mkdir(parents=True, exist_ok=True)
        write_atomically(directory / _VOCABULARY, self.tokenizer.model_bytes)
        content = {
            "problem": self.problem.name,
            "problem_config": self.problem.config(),
            "model": self.model,
            "hparams_set": self.hparams_set,
            "hparams": dataclasses.asdict(self.hparams),
            "random_seed": self.random_seed,
            "data_dir": self.data_dir,
            "data": self.data,
            "averaged": self.averaged,
            "vocabulary": {
                "file": _VOCABULARY,
                "size": self.tokenizer.vocab_size,
                "sha256": self.tokenizer.checksum,
            },
            "versions": installed_versions(),
        }
        write_atomically(directory / _FILE, (json.dumps(content, indent=2) + "\n").encode("utf-8"))

    @staticmethod
    def exists(output_dir: str | Path) -> bool:
        """Returns whether a run has been started in the directory."""
        return (Path(output_dir) / _FILE).exists()

    @classmethod
    def load(cls, output_dir: str | Path) -> "RunRecord":
        """Reads the record of a run.

        Raises:
          UserError: there is none, it cannot be read, or the vocabulary beside it is another one.
        """
        directory = Path(output_dir)
        if not cls.exists(directory):
            raise UserError(
                f"There is no run in --output_dir={output_dir}: no {_FILE}. Train one with "
                f"t2t-trainer, or give the directory of one."
            )
        try:
            content = json.loads((directory / _FILE).read_text(encoding="utf-8"))
            tokenizer = Tokenizer.load(directory / content["vocabulary"]["file"])
            if tokenizer.checksum != content["vocabulary"]["sha256"]:
                raise UserError(
                    f"{directory / _VOCABULARY} is not the vocabulary that the run was trained "
                    f"with. Put the right one back."
                )
            return cls(
                problem=registry.problem(content["problem"], content["problem_config"]),
                model=content["model"],
                hparams_set=content["hparams_set"],
                hparams=HParams(**content["hparams"]),
                random_seed=content["random_seed"],
                data_dir=content["data_dir"],
                data=content["data"],
                tokenizer=tokenizer,
                averaged=content.get("averaged"),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(
                f"{directory / _FILE} cannot be read ({type(error).__name__}: {error}). Put it "
                f"back, or give a new --output_dir."
            ) from error

    def differences(self, wanted: "RunRecord") -> list[str]:
        """Returns a line for each thing that `wanted` would change in what a step computes."""
        return [
            f"{name}: {there} in the run, {asked} asked for"
            for name, there, asked in _pairs(self.compared(), wanted.compared())
            if there != asked
        ]

    def compared(self) -> dict[str, Any]:
        """Returns, by name, what another run must not change to compute the same steps."""
        hparams = dataclasses.asdict(self.hparams)
        config = self.problem.config(of_test_set=False)
        return {
            "problem": self.problem.name,
            **{f"problem_config {name}": value for name, value in config.items()},
            "model": self.model,
            **{name: value for name, value in hparams.items() if name not in MAY_CHANGE},
            "random_seed": self.random_seed,
            "vocabulary": self.tokenizer.checksum[:12],
            "training data": self.data[:12],
        }


def _pairs(there: dict[str, Any], asked: dict[str, Any]):
    for name in {**there, **asked}:
        yield name, there.get(name), asked.get(name)
