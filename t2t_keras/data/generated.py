"""`Generated`: a complete set of generated data, opened for reading."""

import dataclasses
import functools
from pathlib import Path
from typing import Any

from t2t_keras.data.manifest import VOCABULARY_FILE, check_size, read_manifest
from t2t_keras.data.problem import Problem
from t2t_keras.data.shards import SIDES, ExampleStore
from t2t_keras.data.tokenizer import Tokenizer
from t2t_keras.errors import UserError


@dataclasses.dataclass(frozen=True)
class Generated:
    """The generated data of a problem.

    Attributes:
      problem: the problem with the settings that the data was made with; record this one with a
        run, since settings that depend on the source files are decided in it.
      directory: where the data stands.
      manifest: see `t2t_keras.data.manifest`.
    """

    problem: Problem
    directory: Path
    manifest: dict[str, Any]

    @functools.cached_property
    def tokenizer(self) -> Tokenizer:
        """The vocabulary."""
        tokenizer = Tokenizer.load(check_size(self.directory, self.manifest, VOCABULARY_FILE))
        if tokenizer.checksum != self.manifest["vocabulary"]["sha256"]:
            raise UserError(
                f"{self.directory / VOCABULARY_FILE} is not the vocabulary that the data was "
                f"encoded with. Run t2t-datagen again."
            )
        return tokenizer

    def store(self, split: str) -> ExampleStore:
        """Opens the encoded examples of a split."""
        return ExampleStore.open(self.directory, split)

    def text(self, split: str) -> tuple[list[str], list[str]]:
        """Returns sources and references of "dev" or "test", line by line.

        Raises:
          UserError: the problem has no such split.
        """
        sources, references = (
            path.read_bytes().decode("utf-8").split("\n")[:-1] for path in self.text_paths(split)
        )
        return sources, references

    def text_paths(self, split: str) -> tuple[Path, Path]:
        """Returns the files that `text` reads.

        Raises:
          UserError: the problem has no such split.
        """
        kept = [name for name in self.manifest["splits"] if name != "train"]
        if split not in kept:
            raise UserError(
                f"{self.problem.name} has no text of a '{split}' split; it has {', '.join(kept)}."
            )
        source, reference = (
            check_size(self.directory, self.manifest, f"{split}.{side}.txt") for side in SIDES
        )
        return source, reference


def open_generated(problem: Problem, data_dir: str | Path) -> Generated:
    """Opens the data that t2t-datagen made for `problem`.

    Raises:
      UserError: there is none, it is incomplete or damaged, or was made with other settings (each
        difference is named).
    """
    directory = Path(data_dir) / problem.name
    manifest = read_manifest(directory)
    stored, wanted = manifest["config"], problem.config()
    undecided = problem.undecided()
    differences = [
        f"{name}={stored.get(name)} there, {name}={wanted[name]} asked for"
        for name in wanted
        if stored.get(name) != wanted[name]
        and name not in undecided
        and not _same_vocabulary(name, wanted, manifest)
    ]
    if differences:
        raise UserError(
            f"The data in {directory} was made with other settings: {'; '.join(differences)}. "
            f"Give the same --problem_config, or another --data_dir and run t2t-datagen."
        )
    decided = {name: stored[name] for name in undecided}
    return Generated(dataclasses.replace(problem, **decided), directory, manifest)


def _same_vocabulary(name: str, wanted: dict[str, Any], manifest: dict[str, Any]) -> bool:
    """Whether another path of --problem_config=vocab_file leads to the vocabulary in use."""
    if name != "vocab_file" or not wanted[name]:
        return False
    return Tokenizer.load(wanted[name]).checksum == manifest["vocabulary"]["sha256"]
