"""`shards.jsonl`: the training shards that an interrupted t2t-datagen has finished.

The first line says what they are made from; a shard made from anything else is not kept. A line for
each finished shard follows, with the checksums of its files. A complete set has no such file.
"""

import contextlib
import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from t2t_keras.data.atomic_file import write_atomically
from t2t_keras.data.chunks import Chunk
from t2t_keras.data.encode import LeftOut, Shard
from t2t_keras.data.filters import versions_with
from t2t_keras.data.manifest import damaged_files
from t2t_keras.data.problem import Problem
from t2t_keras.errors import UserError

JOURNAL_FILE = "shards.jsonl"
# To be raised when a change of the code makes other shards of the same text.
_ENCODER_VERSION = 1


def made_from(problem: Problem, chunks: Sequence[Chunk], chunk_pairs: int) -> dict[str, Any] | None:
    """Returns all that decides about the shards but the vocabulary; None for text in no files."""
    if not all(chunk.paths for chunk in chunks):
        return None
    files = dict.fromkeys(path for chunk in chunks for path in chunk.paths)
    return {
        "encoder": _ENCODER_VERSION,
        "versions": versions_with(problem.filters),
        "problem": problem.name,
        "config": problem.config(),
        "chunk_pairs": chunk_pairs,
        "files": [[str(path), path.stat().st_size, path.stat().st_mtime_ns] for path in files],
    }


class Journal:
    """The journal of one directory.

    Args:
      directory: of the set.
      made_from: as the function of this name returns it; None keeps no journal.

    Attributes:
      shards: those of an interrupted run that can be kept, by stem; none where it was made from
        something else. Their files are as they were when they were written.
      vocabulary: checksum of the vocabulary that they were encoded with, "" where there are none.
    """

    def __init__(self, directory: Path, made_from: dict[str, Any] | None):
        self._path = directory / JOURNAL_FILE
        self._made_from = made_from
        self.shards: dict[str, Shard] = {}
        self.vocabulary = ""
        if made_from is not None and self._path.exists():
            self._read(directory)

    def start(self, vocabulary: str) -> None:
        """Begins the journal of a run with this vocabulary; shards of another are not kept."""
        if vocabulary != self.vocabulary:
            self.shards, self.vocabulary = {}, vocabulary
        if self._made_from is not None:
            head = {"made_from": self._made_from, "vocabulary": vocabulary}
            lines = [head, *map(dataclasses.asdict, self.shards.values())]
            content = "".join(json.dumps(line) + "\n" for line in lines)
            write_atomically(self._path, content.encode("utf-8"))

    def add(self, shard: Shard) -> None:
        """Records a finished training shard."""
        if self._made_from is not None:
            try:
                with self._path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(dataclasses.asdict(shard)) + "\n")
            except OSError as error:
                raise UserError(
                    f"{self._path} cannot be written: {error.strerror}. Make room, then run the "
                    f"same command again."
                ) from error

    def end(self) -> None:
        """Removes the journal: the set is complete."""
        self._path.unlink(missing_ok=True)

    def _read(self, directory: Path) -> None:
        # Whatever a crash has left of it: a line that cannot be read is a shard to be made again.
        head, *lines = self._path.read_bytes().split(b"\n")
        with contextlib.suppress(ValueError, KeyError, TypeError):
            head = json.loads(head)
            if head["made_from"] == json.loads(json.dumps(self._made_from)):
                self.vocabulary = head["vocabulary"]
                for line in filter(None, lines):
                    shard = _shard(json.loads(line))
                    if not damaged_files(directory, shard.files):
                        self.shards[shard.stem] = shard


def _shard(fields: dict[str, Any]) -> Shard:
    left_out = {reason: LeftOut(**entry) for reason, entry in fields.pop("left_out").items()}
    fields["tokens"], fields["lines"] = tuple(fields["tokens"]), tuple(fields["lines"])
    return Shard(**fields, left_out=left_out)
