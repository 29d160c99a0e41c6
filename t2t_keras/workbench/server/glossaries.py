"""Stores the glossaries of clients."""

import csv
import dataclasses
import datetime
import functools
import io
import re
import threading
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from t2t_keras.errors import UserError
from t2t_keras.io.files import read_json, write_json
from t2t_keras.text.files import is_blank, normalized, split_lines, trimmed
from t2t_keras.text.formats import main_language
from t2t_keras.workbench.server.languages import canonical_code
from t2t_keras.workbench.server.requests import ApiError
from t2t_keras.workbench.terms.glossary import Glossary

FORMATS = ("tsv", "csv")
_MAX_PER_OWNER, _MAX_GLOSSARIES = 1_000, 20_000
_MAX_BYTES, _MAX_TERMS = 10 << 20, 100_000  # limits of a dictionary
_MAX_BYTES_PER_OWNER, _MAX_BYTES_OF_ALL = 100 << 20, 1 << 30
_MAX_COMPILED = 16  # cached for repeated requests with the same glossaries
_MAX_NAME_LENGTH = 1_024
_ADVICE = "Remove the file."
# Control characters and Unicode's line breaks, which DeepL also refuses in entries.
_CONTROLS = re.compile("[\0-\x1f\x7f-\x9f\u2028\u2029]")

Pair = tuple[str, str]
Terms = dict[str, str]


@dataclasses.dataclass
class StoredGlossary:
    """A glossary, with a dictionary for each pair of language codes without variants.

    Attributes:
      glossary_id: a UUID.
      owner: identity of the client that created it.
      name: a label.
      created: time of creation, in the APIs' format.
      dictionaries: terms by language pair.
    """

    glossary_id: str
    owner: str
    name: str
    created: str
    dictionaries: dict[Pair, Terms]

    def as_json(self) -> dict[str, Any]:
        """Returns the content of its file."""
        content = dataclasses.asdict(self)
        content["dictionaries"] = [
            {"pair": pair, "terms": terms} for pair, terms in self.dictionaries.items()
        ]
        return content


class Glossaries:
    """All glossaries of a server; a client sees only its own. Methods that change them may be slow.

    Args:
      folder: folder of their files; None = they are lost at shutdown.

    Raises:
      UserError: a file in the folder cannot be read.
    """

    def __init__(self, folder: Path | None = None):
        self._folder = folder
        self._lock = threading.RLock()
        self._glossaries: dict[str, StoredGlossary] = {}
        self._sizes: dict[str, int] = {}  # in bytes, by glossary_id
        for path in sorted(folder.glob("*.json")) if folder else ():
            glossary = _read_file(path)
            self._glossaries[glossary.glossary_id] = glossary
            self._sizes[glossary.glossary_id] = _size(glossary.dictionaries)

    def owned_by(self, owner: str) -> list[StoredGlossary]:
        """Returns a client's glossaries, oldest first."""
        with self._lock:
            glossaries = [stored for stored in self._glossaries.values() if stored.owner == owner]
        return sorted(glossaries, key=lambda glossary: glossary.created)

    def find(self, glossary_id: str, owner: str) -> StoredGlossary:
        """Returns a client's glossary; raises `ApiError` if it does not exist."""
        try:
            glossary = self._glossaries.get(str(uuid.UUID(glossary_id)))
        except ValueError as error:
            raise ApiError(400, "Value for 'glossary_id' not supported.") from error
        if glossary is None or glossary.owner != owner:
            raise ApiError(404, "Glossary not found")
        return glossary

    def create(self, owner: str, name: str, dictionaries: Mapping[Pair, Terms]) -> StoredGlossary:
        """Creates a glossary.

        Raises:
          ApiError: the glossary is invalid, or the client has too many.
        """
        if len(self._glossaries) >= _MAX_GLOSSARIES or len(self.owned_by(owner)) >= _MAX_PER_OWNER:
            raise ApiError(456, "Quota exceeded: there are too many glossaries.")
        created = f"{datetime.datetime.now(datetime.UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
        glossary = StoredGlossary(str(uuid.uuid4()), owner, name, created, {})
        return self.change(glossary, name, dictionaries)

    def change(
        self, glossary: StoredGlossary, name: str, dictionaries: Mapping[Pair, Terms]
    ) -> StoredGlossary:
        """Sets the name of a glossary, and adds or replaces the given dictionaries.

        Raises:
          ApiError: the name or the terms are invalid or too large; nothing changes.
        """
        if not 0 < len(name) <= _MAX_NAME_LENGTH:
            raise ApiError(400, "Missing or invalid argument: name")
        for terms in dictionaries.values():
            _check_size(as_tsv(terms))
            if len(terms) > _MAX_TERMS:
                raise ApiError(413, f"Glossary entries: expected at most {_MAX_TERMS:,}.")
        size = _size({**glossary.dictionaries, **dictionaries})
        self._check_room(glossary, size)
        for terms in dictionaries.values():
            _compile(tuple(terms.items()))
        with self._lock:
            glossary.name = name
            glossary.dictionaries.update(dictionaries)
            self._glossaries[glossary.glossary_id] = glossary
            self._sizes[glossary.glossary_id] = size
            if self._folder:
                path = self._folder / f"{glossary.glossary_id}.json"
                write_json(path, glossary.as_json(), indent=None)
        return glossary

    def _check_room(self, glossary: StoredGlossary, size: int) -> None:
        """Raises `ApiError` if the glossaries of the owner, or all together, would be too large."""
        with self._lock:
            growth = size - self._sizes.get(glossary.glossary_id, 0)
            owned = self.owned_by(glossary.owner)
            owner_bytes = sum(self._sizes[glossary.glossary_id] for glossary in owned)
            all_bytes = sum(self._sizes.values())
        is_full = owner_bytes + growth > _MAX_BYTES_PER_OWNER
        is_full |= all_bytes + growth > _MAX_BYTES_OF_ALL
        if growth > 0 and is_full:
            raise ApiError(456, "Quota exceeded: the glossaries are too large together.")

    def remove(self, glossary: StoredGlossary, pair: Pair | None = None) -> None:
        """Removes a glossary, or its dictionary for a pair."""
        with self._lock:
            for key in [pair] if pair else list(glossary.dictionaries):
                find_dictionary(glossary, key)
                del glossary.dictionaries[key]
            if pair:
                self.change(glossary, glossary.name, {})
                return
            self._glossaries.pop(glossary.glossary_id, None)
            self._sizes.pop(glossary.glossary_id, None)
            if self._folder:
                (self._folder / f"{glossary.glossary_id}.json").unlink(missing_ok=True)

    def merge(self, glossaries: Iterable[StoredGlossary], pair: Pair) -> Glossary:
        """Merges glossaries for a pair; if a source has several targets, the first counts.

        Raises:
          ApiError: a glossary has no dictionary for the pair.
        """
        pair = glossary_pair(*pair)
        dictionaries = [find_dictionary(glossary, pair) for glossary in glossaries]
        return _compile(tuple(term for terms in dictionaries for term in terms.items()))


def _read_file(path: Path) -> StoredGlossary:
    """Reads a file with the content of `StoredGlossary.as_json`."""
    names = [field.name for field in dataclasses.fields(StoredGlossary)]
    content = read_json(path, _ADVICE, names)
    texts = {name: content[name] for name in names if name != "dictionaries"}
    try:
        dictionaries = {tuple(entry["pair"]): entry["terms"] for entry in content["dictionaries"]}
        is_valid = all(isinstance(text, str) for text in texts.values()) and all(
            isinstance(text, str)
            for (source, target), terms in dictionaries.items()
            for text in (source, target, *terms, *terms.values())
        )
    except (AttributeError, KeyError, TypeError, ValueError):
        is_valid = False
    if not is_valid:
        raise UserError(
            f"{path}: expected a glossary that a server has written. {_ADVICE}",
            code="damaged_file",
        )
    return StoredGlossary(**texts, dictionaries=dictionaries)


def find_dictionary(glossary: StoredGlossary, pair: Pair) -> Terms:
    """Returns the terms of a pair; raises `ApiError` if there are none."""
    if pair not in glossary.dictionaries:
        raise ApiError(404, "Dictionary not found")
    return glossary.dictionaries[pair]


def glossary_pair(source: str, target: str) -> Pair:
    """Returns the languages of a dictionary: canonical codes without variants."""
    return main_language(canonical_code(source)), main_language(canonical_code(target))


def _size(dictionaries: Mapping[Pair, Terms]) -> int:
    return sum(len(as_tsv(terms).encode()) for terms in dictionaries.values())


@functools.lru_cache(maxsize=_MAX_COMPILED)
def _compile(terms: tuple[tuple[str, str], ...]) -> Glossary:
    try:
        # DeepL distinguishes Dog and dog; here they are the same term.
        return Glossary.of(terms, first_counts=True)
    except UserError as error:
        raise _invalid_entries(str(error)) from error


def read_entries(text: str, entries_format: str, pair: Pair) -> Terms:
    """Returns the terms in a text, whose format is one of `FORMATS`.

    A line has source and target. In CSV it may also have their language codes; lines for other
    pairs are skipped.

    Raises:
      ApiError: the text has another format, or no terms.
    """
    if entries_format not in FORMATS:
        raise ApiError(400, "Value for 'entries_format' not supported.")
    _check_size(text)
    text = text.removeprefix("\ufeff")
    if entries_format == "csv":
        try:
            # A quoted cell may have line breaks, which are refused below.
            rows = [row for row in csv.reader(io.StringIO(text, newline=""), strict=True) if row]
        except csv.Error as error:
            raise _invalid_entries(str(error)) from error
        rows = [row[:2] for row in rows if len(row) < 4 or glossary_pair(*row[2:4]) == pair]
    else:
        rows = [line.split("\t") for line in split_lines(text) if not is_blank(line)]
    terms: Terms = {}
    for number, row in enumerate(rows):
        if len(row) != 2 or any(map(is_blank, row)):
            raise _invalid_entries(f"Entry {number} is not a source and a target")
        source, target = (trimmed(normalized(part)) for part in row)
        if _CONTROLS.search(source + target):
            raise _invalid_entries(f"Entry {number} has a line break or another control character")
        if source in terms:
            raise _invalid_entries(f"Entry {number} duplicates an earlier source")
        terms[source] = target
    if not terms:
        raise _invalid_entries("There are no entries")
    return terms


def _check_size(entries: str) -> None:
    if len(entries.encode()) > _MAX_BYTES:
        raise ApiError(413, f"Glossary entries: expected at most {_MAX_BYTES:,} bytes.")


def _invalid_entries(reason: str) -> ApiError:
    return ApiError(400, "Invalid glossary entries provided", detail=reason)


def as_tsv(terms: Terms) -> str:
    """Returns a line for each term, source<tab>target."""
    return "\n".join(f"{source}\t{target}" for source, target in terms.items())
