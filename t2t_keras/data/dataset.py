"""Generated data, opened for reading. It is complete if and only if it has a `manifest.json`.

A shard is two files: `<stem>.tokens.npy`, 1-D, with the source ids and then the target ids of each
example, both ending in EOS; and `<stem>.lengths.npy`, int32 [examples, 2].

```
{"problem": name, "config": {setting: value}, "versions": {package: version},
 "made_from": hex, a digest of the text's files ("" if the problem makes the text itself),
 "vocabulary": {"file": "vocab.model", "size": ids, "sha256": hex},  (and "source", likewise)
 "splits": {"train": {"examples": n, "source_tokens": n, "target_tokens": n,
                      "shards": ["train-00000", ...],
                      "left_out": {reason: {"count": n, "first": ["train.en:17", ...]}}}, ...},
 "files": {file name: {"size": bytes, "sha256": hex}}}
```
Numbers of tokens include EOS. Opening a file compares its size and checksum with the manifest.
The checksums of the training set's large token files are compared by `BackgroundCheck` while
training begins.
"""

import dataclasses
import functools
import io
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from t2t_keras.data.mixing import stages_of
from t2t_keras.data.problem import Change, Problem
from t2t_keras.errors import UserError, command_line, translated_errors
from t2t_keras.io.files import (
    MANIFEST_FILE,
    differences,
    not_a_run,
    read_json,
    sha256_of,
    write_atomically,
)
from t2t_keras.registry import user_directories
from t2t_keras.settings import as_assignments
from t2t_keras.text.tokenizer import Tokenizer

SIDES = ("source", "target")


def write_shard(
    directory: Path,
    stem: str,
    sources: Sequence[np.ndarray],
    targets: Sequence[np.ndarray],
    vocab_size: int,
) -> dict[str, dict]:
    """Writes one shard and returns the manifest's records of its two files, by file name.

    Ids include EOS; tokens are uint16 if `vocab_size` allows, else int32.
    """
    dtype = np.uint16 if vocab_size <= 1 << 16 else np.int32
    ids = [side for pair in zip(sources, targets, strict=True) for side in pair]
    lengths = np.array([len(side) for side in ids], np.int32).reshape(-1, 2)
    tokens = np.concatenate([np.zeros(0, dtype), *ids], dtype=dtype, casting="unsafe")
    records = {}
    for name, array in (("tokens", tokens), ("lengths", lengths)):
        buffer = io.BytesIO()
        np.save(buffer, array, allow_pickle=False)
        path = directory / f"{stem}.{name}.npy"
        records[path.name] = write_atomically(path, buffer.getvalue())
    return records


class ExampleStore:
    """The examples of one split, read at random from the memory-mapped arrays of its shards.

    Attributes:
      lengths: int32 [examples, 2], tokens of source and target, EOS included.
    """

    def __init__(self, tokens: Sequence[np.ndarray], lengths: Sequence[np.ndarray]):
        self._tokens = tokens
        self.lengths = np.concatenate([np.zeros((0, 2), np.int32), *lengths])
        # Number of each shard's first example; position of each example in its shard's tokens.
        self._shard_starts = np.cumsum([0, *map(len, lengths)])[:-1]
        totals = [shard.sum(axis=1, dtype=np.int64) for shard in lengths]
        starts = [np.cumsum(shard) - shard for shard in totals]
        self._token_starts = np.concatenate([np.zeros(0, np.int64), *starts])

    @classmethod
    def concatenate(cls, stores: "Sequence[ExampleStore]") -> "ExampleStore":
        """Concatenates several stores."""
        return cls(
            [tokens for store in stores for tokens in store._tokens],
            [store.lengths for store in stores],
        )

    def __len__(self) -> int:
        return len(self.lengths)

    def rows(self, numbers: np.ndarray, side: str) -> list[np.ndarray]:
        """Returns the ids of the "source" or "target" of each example."""
        column = SIDES.index(side)
        starts = self._token_starts[numbers] + column * self.lengths[numbers, 0]
        ends = starts + self.lengths[numbers, column]
        shards = np.searchsorted(self._shard_starts, numbers, side="right") - 1
        spans = zip(shards.tolist(), starts.tolist(), ends.tolist(), strict=True)
        return [self._tokens[shard][start:end] for shard, start, end in spans]

    def padded(self, numbers: np.ndarray, side: str) -> np.ndarray:
        """Returns the "source" or "target" of examples, padded with 0: int32 [rows, longest]."""
        rows = self.rows(numbers, side)
        padded = np.zeros((len(rows), max(map(len, rows), default=0)), np.int32)
        for row, ids in zip(padded, rows, strict=True):
            row[: len(ids)] = ids
        return padded


_LANGUAGES = {"source_language", "target_language"}


@dataclasses.dataclass(frozen=True)
class Generated:
    """The generated data of a problem.

    Attributes:
      problem: the problem with the settings that the data was made with. A run records it, since
        settings that depend on the source files are resolved in it.
      directory: the directory of the data.
      manifest: see the module.
    """

    problem: Problem
    directory: Path
    manifest: dict[str, Any]

    @functools.cached_property
    def tokenizer(self) -> Tokenizer:
        """The vocabulary."""
        return Tokenizer.load_saved(self.directory, self.manifest["vocabulary"])

    @functools.cached_property
    def augmentations(self) -> dict[str, Change]:
        """The changes for `Problem.augment` that the problem's transforms define, by name."""
        changes = {}
        for name, transform in self.problem.pair_transforms.items():
            if transform.augments:
                file = transform.artifact
                changes[name] = transform.augmentation(
                    self._path(file).read_bytes() if file else b""
                )
        return changes

    def open_examples(self, split: str) -> ExampleStore:
        """Opens the encoded examples of a split; the tokens of "train" are read when needed."""
        if split not in self.manifest["splits"]:
            raise self._no_split_error(split, list(self.manifest["splits"]))
        tokens, lengths = [], []
        for stem in self.manifest["splits"][split]["shards"]:
            lengths.append(self._array(f"{stem}.lengths.npy"))
            tokens.append(self._array(f"{stem}.tokens.npy", compare=split != "train"))
            if tokens[-1].shape != (lengths[-1].sum(dtype=np.int64),):
                raise _damage_error(self.directory / f"{stem}.tokens.npy", "its length is wrong")
        return ExampleStore(tokens, lengths)

    def compare_all(self) -> None:
        """Compares the checksums of all files; raises `UserError` for the first that differs."""
        for name in self.manifest["files"]:
            self._path(name)

    @property
    def corpora(self) -> dict[str, int]:
        """The number of training examples of each corpus, in the order of the examples."""
        train = self.manifest["splits"]["train"]
        # Data that earlier versions generated is one corpus.
        return train.get("corpora", {"train": train["examples"]})

    def text(self, split: str) -> tuple[list[str], list[str]]:
        """Returns the lines of the sources and references of "dev" or "test"."""
        paths = self.text_paths(split)
        sources, references = (path.read_bytes().decode().split("\n")[:-1] for path in paths)
        return sources, references

    def text_paths(self, split: str) -> tuple[Path, Path]:
        """Returns the files of sources and references of "dev" or "test"."""
        splits = [name for name in self.manifest["splits"] if name != "train"]
        if split not in splits:
            raise self._no_split_error(split, splits)
        source, reference = (self._path(f"{split}.{side}.txt") for side in SIDES)
        return source, reference

    def _no_split_error(self, split: str, splits: list[str]) -> UserError:
        advice = " Leave --eval_use_test_set out to take the dev set." * (split == "test")
        return UserError(
            f"The data in {self.directory} has no {split} set: it has {', '.join(splits)}.{advice}",
            code="no_such_split",
        )

    def _array(self, name: str, compare: bool = True) -> np.ndarray:
        path = self._path(name, compare)
        try:
            # A plain view: slices of np.memmap objects cost four times as much.
            return np.asarray(np.load(path, mmap_mode="r"))
        except (ValueError, TypeError, EOFError, SyntaxError) as error:
            raise _damage_error(path, "it is not an array") from error

    def _path(self, name: str, compare: bool = True) -> Path:
        """Returns a file's path, after comparing its size and, if `compare`, its checksum."""
        path, record = self.directory / name, self.manifest["files"][name]
        expected = f"{record['size']:,}"
        got = f"{path.stat().st_size:,}" if path.exists() else "no such file"
        if got != expected:
            raise _damage_error(path, f"expected {expected} bytes, got {got}")
        with translated_errors(OSError, f"{path} cannot be read", code="not_read"):
            if compare and sha256_of(path) != record["sha256"]:
                raise _damage_error(path, "its content is not what t2t-datagen wrote")
        return path


class BackgroundCheck(threading.Thread):
    """Compares the checksums of all generated files in a thread, while training runs."""

    def __init__(self, generated: Generated):
        # A daemon thread, so that the process can exit without waiting for it.
        super().__init__(name="t2t_keras compares checksums", daemon=True)
        self._generated = generated
        self._error: UserError | None = None
        self.start()

    def run(self) -> None:
        """Compares the checksums, in the thread."""
        try:
            self._generated.compare_all()
        except UserError as error:
            self._error = error

    def raise_if_damaged(self, wait: bool = False) -> None:
        """Raises `UserError` if a damaged file was found; `wait` = compare all files first."""
        if wait:
            self.join()
        if self._error:
            raise self._error


def _damage_error(path: Path, reason: str) -> UserError:
    return UserError(
        f"{path}: {reason}. Run t2t-datagen again, with the same settings: the same text gives the "
        f"same data.",
        code="data_damaged",
    )


def open_generated(problem: Problem, data_dir: str | Path, as_text: bool = False) -> Generated:
    """Opens the data that t2t-datagen made for `problem`.

    Args:
      problem: the problem.
      data_dir: parent of its data.
      as_text: whether only text is needed, so that only the languages and the test set must match.

    Raises:
      UserError: there is no data, or it was made with different settings; names each difference.
    """
    directory = Path(data_dir) / problem.name
    manifest = read_manifest(directory, problem)
    # Settings that were introduced after the data was made had their defaults.
    recorded = type(problem)().config() | manifest["config"]
    requested = problem.config()
    for name in problem.non_data_settings:
        requested.pop(name, None)
    if as_text:
        not_for_text = problem.config(of_test_set=False).keys() - _LANGUAGES
        requested = {name: value for name, value in requested.items() if name not in not_for_text}
    # The vocabulary may have been moved: its checksum counts, not its path.
    file_settings = [name for name in ("vocab_file", "source_vocab_file") if name in requested]
    if any(requested[name] and requested[name] != recorded[name] for name in file_settings):
        vocabulary = problem.load_vocabulary()
        if vocabulary and vocabulary.checksum == manifest["vocabulary"]["sha256"]:
            requested |= {name: recorded[name] for name in file_settings}
    # `Problem.resolved` decided these.
    resolved = {name: recorded[name] for name, value in requested.items() if value == "auto"}
    mismatches = differences({name: recorded[name] for name in requested}, requested | resolved)
    if mismatches:
        raise UserError(
            f"The data in {directory} was made with different settings ({'; '.join(mismatches)}). "
            f"Give the same --problem_config, or another --data_dir and run t2t-datagen.",
            code="other_settings",
        )
    generated = Generated(dataclasses.replace(problem, **resolved), directory, manifest)
    if problem.mix and not as_text:
        stages_of(problem.mix, problem.mix_until, generated.corpora)
    return generated


def datagen_command(problem: Problem, data_dir: str | Path, tmp_dir: str | Path = "text") -> str:
    """Returns the command that makes the data of a problem, in the form of `command_line`."""
    defaults = type(problem)().config()
    changes = {name: value for name, value in problem.config().items() if value != defaults[name]}
    needs_text = type(problem).examples is Problem.examples
    return command_line(
        "t2t-datagen",
        problem=problem.name,
        problem_config=as_assignments(changes),
        data_dir=data_dir,
        tmp_dir=tmp_dir if needs_text else "",
        t2t_usr_dir=next(iter(user_directories), ""),
    )


def read_manifest(directory: Path, problem: Problem | None = None) -> dict[str, Any]:
    """Returns the manifest of complete data.

    Raises:
      UserError: the data is missing, incomplete or damaged; if it is not there, the message ends
        with the command that makes the data of `problem`.
    """
    path = directory / MANIFEST_FILE
    if path.exists():
        keys = ("problem", "config", "vocabulary", "splits", "files")
        return read_json(path, "Run t2t-datagen again, with the same settings.", keys)
    instruction = " t2t-datagen"
    if problem:
        instruction = datagen_command(problem, directory.parent)
        if "--tmp_dir" in instruction:
            instruction = f" (replace 'text' by the folder of the source files){instruction}"
    if directory.is_dir() and any(directory.iterdir()):
        raise UserError(
            f"The data in {directory} is incomplete: t2t-datagen was interrupted or is still "
            f"running. If it is not, start it again:{instruction}",
            code="incomplete_data",
        )
    if (directory.parent / MANIFEST_FILE).is_file():
        raise UserError(
            f"There is no generated data in {directory}. {not_a_run(directory.parent)} A "
            f"problem's data must be in a folder with the problem's name.",
            code="no_data",
        )
    raise UserError(
        f"There is no generated data in {directory}. Make it first:{instruction}", code="no_data"
    )


def describe(manifest: dict[str, Any]) -> str:
    """Returns a report of the data: its splits, and the pairs left out."""
    vocabulary = manifest["vocabulary"]
    sizes = [part["size"] for part in (vocabulary.get("source"), vocabulary) if part]
    ids = " and ".join(f"{size:,}" for size in sizes)
    lines = [f"{manifest['problem']}: vocabulary of {ids} ids"]
    for name, split in manifest["splits"].items():
        lines.append(
            f"  {name}: {split['examples']:,} pairs in {len(split['shards'])} shards, "
            f"{split['source_tokens']:,} source and {split['target_tokens']:,} target tokens"
        )
        if len(corpora := split.get("corpora", {})) > 1:
            lines.append(f"    {', '.join(f'{corpus} {n:,}' for corpus, n in corpora.items())}")
        for reason, entry in split["left_out"].items():
            ellipsis = ", ..." if entry["count"] > len(entry["first"]) else ""
            first = ", ".join(entry["first"])
            lines.append(f"    left out: {entry['count']:,} {reason} ({first}{ellipsis})")
        if not split["left_out"]:
            lines.append("    left out: none")
    return "\n".join(lines)
