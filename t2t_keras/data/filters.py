"""Filters of training pairs, by name.

| name | leaves out |
|---|---|
| `duplicates` | a pair that repeats an earlier one on both sides |
| `identical` | a pair whose sides are equal |
| `language` | a pair with a side in another language; see `in_other_language` |
| `length_ratio` | a pair with over `max_length_ratio` times as many tokens on one side |

`registry.register_filter` adds others.
"""

import contextlib
import functools
import hashlib
import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from t2t_keras.data.problem import Chunk
from t2t_keras.environment import installed_versions
from t2t_keras.errors import UserError, report_missing_package, unknown_name
from t2t_keras.registry import FILTERS
from t2t_keras.text.files import is_blank, normalized, read_lines
from t2t_keras.text.formats import main_language

BUILT_IN_FILTERS = ("duplicates", "identical", "language", "length_ratio")

# py3langid reads only the start of a line: its time grows with the length, and more hardly helps.
_SAMPLE_CHARACTERS = 100
# At this confidence py3langid rejects at most 2 in 1,000 correct English, German and French lines,
# and recognises 92 to 98 % of the lines in another language.
_MIN_CONFIDENCE = 0.5
# Number of lines to sample for checks of a corpus's language; below the minimum, checks pass.
_SAMPLE_LINES, _MIN_LINES = 200, 20


def check_filters(names: Sequence[str], languages: Iterable[str]) -> None:
    """Raises `UserError` for an unknown filter or language."""
    known_filters = [*BUILT_IN_FILTERS, *FILTERS]
    for name in names:
        if name not in known_filters:
            advice = "Give several as filters=[identical, duplicates]."
            raise unknown_name("filter", name, known_filters, advice)
    if "language" in names:
        known_languages = language_identifier().labels
        for code in map(main_language, languages):
            if code not in known_languages:
                raise UserError(
                    f"filters=language does not know the language '{code}'. It knows "
                    f"{', '.join(sorted(known_languages))}.",
                    code="unknown_language",
                )


def data_versions(filters: Sequence[str]) -> dict[str, str]:
    """Returns the versions of the packages that data depends on, including those of its filters."""
    return installed_versions(*(["py3langid"] if "language" in filters else []))


def in_other_language(lines: Iterable[str], language: str) -> list[bool]:
    """Returns for each line whether it is not in `language`; False if uncertain, as for names."""
    expected = main_language(language)
    guesses = (language_identifier().classify(line[:_SAMPLE_CHARACTERS]) for line in lines)
    return [code != expected and confidence >= _MIN_CONFIDENCE for code, confidence in guesses]


def check_direction(chunks: Iterable[Chunk], languages: tuple[str, str]) -> None:
    """Checks, by a sample of lines, that no corpus has swapped sides.

    Does nothing if py3langid is not installed or does not know a language.

    Args:
      chunks: the chunks of a split.
      languages: codes of source and target, for chunks without their own.

    Raises:
      UserError: most sources are in the language of the target, and most targets in the language of
        the source.
    """
    corpora: dict[str, list[Chunk]] = {}
    for chunk in chunks:
        corpora.setdefault(chunk.corpus, []).append(chunk)
    for corpus, corpus_chunks in corpora.items():
        # Sample the middle chunk, as the last one may be short.
        chunk = corpus_chunks[(len(corpus_chunks) - 1) // 2]
        source, target = map(main_language, chunk.languages or languages)
        if not _can_tell_apart(source, target):
            continue
        pairs = list(chunk.pairs(0, 1 + chunk.count // _SAMPLE_LINES))
        sources, targets = ([pair[i].decode("utf-8", "replace") for pair in pairs] for i in (0, 1))
        if _mostly_in(target, sources) and _mostly_in(source, targets):
            raise UserError(
                f"The two sides of {corpus} seem to be swapped: most of its source lines are in "
                f"'{target}', and most of its target lines in '{source}'. Exchange the names of "
                f"its files, or the languages.",
                code="swapped_languages",
            )


def check_language(file: Path, count: int, language: str, other: str) -> None:
    """Checks, by a sample, that a text of `count` lines is in `language`, not in `other`.

    Does nothing if py3langid is not installed or does not know a language.

    Raises:
      UserError: most lines of the sample are in the other language.
    """
    language, other = main_language(language), main_language(other)
    if not _can_tell_apart(language, other):
        return
    lines = itertools.islice(read_lines(file), 0, None, 1 + count // _SAMPLE_LINES)
    if _mostly_in(other, (line.decode("utf-8", "replace") for line in lines)):
        raise UserError(
            f"{file}: expected text in '{language}', got mostly lines in '{other}'. Give text of "
            f"the right language, or change the languages.",
            code="wrong_language",
        )


def _can_tell_apart(one: str, other: str) -> bool:
    try:
        known_languages = language_identifier().labels
    except UserError:  # py3langid is not installed.
        return False
    return one != other and {one, other} <= {*known_languages}


def _mostly_in(language: str, lines: Iterable[str]) -> bool:
    samples = [line[:_SAMPLE_CHARACTERS] for line in lines if not is_blank(line)]
    matches = sum(language_identifier().classify(line)[0] == language for line in samples)
    return len(samples) >= _MIN_LINES and matches > len(samples) / 2


@functools.cache
def language_identifier(
    purpose: str = "filters=language", languages: frozenset[str] = frozenset()
) -> Any:
    """Returns py3langid's model, which chooses among the languages that it knows; empty = all.

    Raises:
      UserError: py3langid, which `purpose` needs, is not installed.
    """
    with report_missing_package(purpose, "language"):
        from py3langid.langid import MODEL_FILE, LanguageIdentifier
    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    if known_languages := sorted(languages.intersection(identifier.labels)):
        identifier.set_languages(known_languages)
    return identifier


def pair_hashes(chunk: Chunk) -> np.ndarray:
    """Returns a hash of each pair of a chunk, uint64 [pairs].

    The probability of a collision among 36 million pairs is 4 in 100,000.
    """
    texts = (b"%b\n%b" % tuple(map(_normalized_line, pair)) for pair in chunk.pairs())
    digests = (hashlib.blake2b(text, digest_size=8).digest() for text in texts)
    return np.frombuffer(b"".join(digests), np.uint64)


def _normalized_line(line: bytes) -> bytes:
    if not line.isascii():
        with contextlib.suppress(UnicodeDecodeError):
            line = normalized(line.decode("utf-8")).encode("utf-8")
    return line.strip()


def duplicate_mask(hashes: np.ndarray) -> np.ndarray:
    """Returns for each hash whether it repeats an earlier one: uint64 [pairs] -> bool [pairs]."""
    mask = np.zeros(len(hashes), bool)
    for part in range(16):
        # Divide by the first four bits: sorting takes several times the memory of its input.
        low, high = np.uint64(part << 60), np.uint64((part + 1 << 60) - 1)
        rows = np.flatnonzero((hashes >= low) & (hashes <= high))
        rows = rows[np.argsort(hashes[rows], kind="stable")]
        mask[rows[1:]] = hashes[rows[1:]] == hashes[rows[:-1]]
    return mask
