"""Filters of training pairs, by name: what is left out before a pair is encoded.

| name | what it leaves out |
|---|---|
| `duplicates` | a pair that came before, the same on both sides |
| `identical` | a pair whose sides are the same |
| `language` | a pair of which a side is in another language; see `Languages` |
| `length_ratio` | a pair of which one side has over `max_length_ratio` times the other's tokens |
"""

import functools
import hashlib
from collections.abc import Sequence

import numpy as np

from t2t_keras.data.chunks import Chunk
from t2t_keras.errors import UserError, nearest
from t2t_keras.versions import installed_versions

FILTERS = ("duplicates", "identical", "language", "length_ratio")

# py3langid reads a character at a time: more would take longer and tell little.
_CHARACTERS_JUDGED = 100
# Of correct English, German and French lines it takes at most 2 in 1,000 for another language with
# this confidence, and sees 92 to 98 % of the lines that are in another one.
_LEAST_CONFIDENCE = 0.5
# The hashes are compared in so many parts, so that sorting needs memory for one of them only.
_PARTS_OF_HASHES = 16


def filter_names(text: str) -> tuple[str, ...]:
    """Returns the names in "identical+language".

    Raises:
      UserError: a name that there is not.
    """
    names = tuple(filter(None, (name.strip() for name in text.split("+"))))
    for name in names:
        if name not in FILTERS:
            raise UserError(
                f"There is no filter '{name}'.{nearest(name, FILTERS)} There are: "
                f"{', '.join(FILTERS)}; give several as filters=identical+duplicates."
            )
    return names


def versions_with(filters: str) -> dict[str, str]:
    """Returns what versions data is made with, also of what filters="identical+language" judge by.

    Raises:
      UserError: a name that there is not.
    """
    return installed_versions(*(["py3langid"] if "language" in filter_names(filters) else []))


class Languages:
    """Tells pairs of which a side is in another language than it should be.

    Lines of which the model is not sure, as of names and numbers, count as right.

    Args:
      languages: codes of source and target.

    Raises:
      UserError: the package that knows languages is missing, or does not know one of them.
    """

    def __init__(self, languages: tuple[str, str]):
        self._expected = tuple(code.replace("_", "-").split("-")[0].lower() for code in languages)
        for code in self._expected:
            if code not in _identifier().labels:
                raise UserError(
                    f"filters=language does not know the language '{code}'. It knows "
                    f"{', '.join(sorted(_identifier().labels))}."
                )

    def other(self, sources: Sequence[str], targets: Sequence[str]) -> list[bool]:
        """Returns for each pair whether a side is in another language."""
        pairs = zip(sources, targets, strict=True)
        return [any(map(self._is_other, pair, self._expected)) for pair in pairs]

    @staticmethod
    def _is_other(text: str, expected: str) -> bool:
        language, confidence = _identifier().classify(text[:_CHARACTERS_JUDGED])
        return language != expected and confidence >= _LEAST_CONFIDENCE


@functools.cache
def _identifier():
    try:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier
    except ImportError as error:
        raise UserError(
            f"filters=language needs py3langid ({error}): pip install 't2t-keras[language]'."
        ) from error
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def pair_hashes(chunk: Chunk) -> np.ndarray:
    """Returns a hash of each pair of a chunk, uint64 [pairs].

    Two different pairs among 36 million have the same one with a probability of 4 in 100,000.
    """
    digests = (
        hashlib.blake2b(b"%b\n%b" % (source.strip(), target.strip()), digest_size=8).digest()
        for source, target in chunk.pairs()
    )
    return np.frombuffer(b"".join(digests), np.uint64)


def came_before(hashes: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Returns for each hash of each array whether an earlier one is the same, bool [pairs] each.

    Args:
      hashes: uint64 arrays. They and what is computed take less than 16 bytes a hash.
    """
    repeated = [np.zeros(len(some), bool) for some in hashes]
    for number in range(_PARTS_OF_HASHES):
        # Part of them at a time: sorting takes several times the memory of what is sorted.
        rows = [np.flatnonzero(some >> np.uint64(60) == number) for some in hashes]
        values = [some[row] for some, row in zip(hashes, rows, strict=True)]
        part = np.concatenate([np.zeros(0, np.uint64), *values])
        order = np.argsort(part, kind="stable")
        later = np.zeros(len(part), bool)
        later[order[1:]] = part[order[1:]] == part[order[:-1]]
        ends = np.cumsum(list(map(len, rows)))
        for flags, row, end in zip(repeated, rows, ends, strict=True):
            flags[row] = later[end - len(row) : end]
    return repeated
