"""Translates the untranslated units of documents, by a model and a translation memory."""

import bisect
import collections
import dataclasses
import functools
import itertools
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from t2t_keras.decoding.confidence import confidences
from t2t_keras.environment import expand_path
from t2t_keras.errors import UserError, report_missing_package
from t2t_keras.io.files import check_outputs, check_parent
from t2t_keras.io.terminal import LineProgress, print_beside_bar, printable
from t2t_keras.text.files import has_letters, normalized, reading
from t2t_keras.text.formats import translation_units
from t2t_keras.workbench.documents.document import (
    EXTENSIONS,
    Document,
    Piece,
    Suggestion,
    Unit,
    read_document,
    resolve_languages,
    translated_name,
)
from t2t_keras.workbench.documents.layout import SentenceGroup, sentence_groups, with_translations
from t2t_keras.workbench.markup.translator import MarkupTranslator
from t2t_keras.workbench.placeholders import has_words

# Comparing longer texts takes long and seldom finds anything.
_MAX_COMPARED_LENGTH = 1000
# Number of texts translated together; more would make the progress bar jump.
_TEXTS_AT_ONCE = 1024
_TAG_OR_SPACE = re.compile(r"<[^<>]*>|\s+")


class TranslationMemory:
    """A translation memory with exact and fuzzy lookup.

    Args:
      pairs: (text, translation); the first translation of a text counts.
      units: units of documents. A translation is exact for a unit with the same context and plural
        form, or if it is the only translation of its text. An unreviewed translation is never
        exact.

    Example:
      >>> TranslationMemory([("Open file", "Datei öffnen")]).fuzzy("Open a file")
      ('Open file', 'Datei öffnen', 0.9)
    """

    def __init__(self, pairs: Iterable[tuple[str, str]], units: Iterable[Unit] = ()):
        self._targets: dict[str, str] = {}
        # Translations by (text, context, plural form); None = there are several.
        self._unit_targets: dict[tuple[str, str | None, int | None], str | None] = {}
        self._entries: set[tuple[str, str | None, int | None]] = set()
        self._ambiguous_sources: set[str] = set()
        for source, target in pairs:
            self._add_lines(source, target)
        for unit in sorted(units, key=lambda unit: not unit.is_reviewed):
            self._add_lines(unit.source, unit.target, unit)
        self._sources = sorted(filter(_is_comparable, self._targets), key=len)
        self._lengths = list(map(len, self._sources))

    def _add_lines(self, source: str, target: str, unit: Unit | None = None) -> None:
        self._add(source.strip(), target.strip(), unit)
        lines, target_lines = source.strip().split("\n"), target.strip().split("\n")
        if 1 < len(lines) == len(target_lines):
            for line, target_line in zip(lines, target_lines, strict=True):
                self._add(line.strip(), target_line.strip(), unit)

    def _add(self, source: str, target: str, unit: Unit | None) -> None:
        source = normalized(source)
        if not (source and target):
            return
        key = (source, unit.context, unit.form) if unit else (source, None, None)
        self._entries.add(key)
        is_new = source not in self._targets
        is_different = self._targets.setdefault(source, target) != target
        if unit and (is_different if unit.is_reviewed else is_new):
            self._ambiguous_sources.add(source)
        if unit and unit.is_reviewed:
            is_unique = self._unit_targets.get(key, target) == target
            self._unit_targets[key] = target if is_unique else None

    @classmethod
    def read(cls, path: str | Path, source: str, target: str) -> "TranslationMemory":
        """Reads a memory from TMX or from another file with translations, such as PO.

        Args:
          path: the file.
          source: code of the texts' language.
          target: code of the translations' language.

        Raises:
          UserError: the file cannot be read, or has no translations between the two languages.
        """
        path = Path(expand_path(path))
        if path.suffix.lower() == ".tmx":
            with reading(path) as stream:
                units = translation_units(stream, str(path), (source, target), keep_lines=True)
                return cls(
                    (text.decode("utf-8", "replace"), translation.decode("utf-8", "replace"))
                    for text, translation in units
                )
        document = read_document(path, source, target)
        memory = cls((), (unit for unit in document.units if unit.is_translated))
        if not len(memory):
            raise UserError(
                f"{path}: expected translations for a memory, got none. Give a file with "
                f"translations, one of {', '.join(EXTENSIONS)}.",
                code="no_documents",
            )
        return memory

    def __len__(self) -> int:
        """Returns the number of distinct entries: (text or line, context, plural form)."""
        return len(self._entries)

    def exact(self, text: str, context: str | None = None, form: int | None = None) -> str | None:
        """Returns the translation of a text, ignoring white space around both; None = unknown.

        Args:
          text: the text to find.
          context: context of its unit.
          form: plural form of its unit.
        """
        source = normalized(text.strip())
        if (key := (source, context, form)) in self._unit_targets:
            return self._unit_targets[key]
        return None if source in self._ambiguous_sources else self._targets.get(source)

    def fuzzy(self, text: str, least: float = 0.75) -> tuple[str, str, float] | None:
        """Returns the most similar text, its translation, and the similarity.

        The similarity is 1 - (characters to insert and to delete) / (characters of both texts).

        Args:
          text: the text to find.
          least: minimum similarity, 0 to 1; if no text reaches it, returns None.
        """
        text = normalized(text.strip())
        if not _is_comparable(text) or not least:
            return None
        with report_missing_package("A translation memory", "documents"):
            from rapidfuzz import fuzz, process

        # Much shorter or longer texts cannot be that similar.
        min_length = len(text) * least / (2 - least)
        start = bisect.bisect_left(self._lengths, int(min_length))
        end = bisect.bisect_right(self._lengths, len(text) * (2 - least) / least + 1)
        similar = process.extractOne(
            text, self._sources[start:end], scorer=fuzz.ratio, score_cutoff=100 * least
        )
        return similar and (similar[0], self._targets[similar[0]], similar[1] / 100)


def _is_comparable(text: str) -> bool:
    return 0 < len(text) <= _MAX_COMPARED_LENGTH


@dataclasses.dataclass(frozen=True)
class Report:
    """Counts of a document's units.

    Attributes:
      translated: translated by the model.
      from_memory: taken from the translation memory.
      fuzzy: translated by the model, with a similar text in the memory.
      existing: translated before.
      broken: translated by the model with wrong placeholders, which were repaired.
      unsafe: with a translation that could break the program, and is marked for review; or one
        that the format cannot hold, so that the source stays.
      left_out: numbers of skipped texts, by reason.
    """

    translated: int = 0
    from_memory: int = 0
    fuzzy: int = 0
    existing: int = 0
    broken: int = 0
    unsafe: int = 0
    left_out: dict[str, int] = dataclasses.field(default_factory=dict)

    def __str__(self) -> str:
        counts = [f"{self.translated:,} translated"]
        counts += [f"{self.from_memory:,} from the memory"] * bool(self.from_memory)
        counts += [f"{self.fuzzy:,} similar to texts in the memory"] * bool(self.fuzzy)
        counts += [f"{self.existing:,} kept"] * bool(self.existing)
        counts += [f"{self.broken:,} with repaired placeholders"] * bool(self.broken)
        counts += [f"{self.unsafe:,} unsafe for the program or the file"] * bool(self.unsafe)
        counts += [f"{count:,} skipped: {reason}" for reason, count in self.left_out.items()]
        return ", ".join(counts)


class _Translation(NamedTuple):
    """A translation, the model's confidence in it, and whether placeholders were broken."""

    text: str
    confidence: float | None
    is_broken: bool


# Translations by format and text.
_Translations = dict[tuple[str, str], _Translation]


def translate_document(
    document: Document,
    translator: MarkupTranslator,
    everything: bool = False,
    memory: TranslationMemory | None = None,
    progress: Callable[[int, int], object] = lambda done, total: None,
    final: bool = False,
    least: float = 0.75,
    confidence: bool = False,
) -> Report:
    """Translates the units of a document that have no translation.

    Splits text into sentences, and translates each distinct sentence once.

    Args:
      document: from `read_document`; write it with `save`.
      translator: translates text and markup.
      everything: whether to translate all units, also those with a translation.
      memory: provides translations, and similar texts as suggestions.
      progress: called with the number of finished sentences, and of all sentences.
      final: whether to mark new translations as final, not as in need of review.
      least: minimum similarity of a suggestion, 0 to 1.
      confidence: whether to set `quality` to the model's confidence, for texts without markup.

    Raises:
      UserError: see `Translator.translate`.
    """
    pending = [unit for unit in document.units if everything or not unit.is_translated]
    num_kept = len(document.units) - len(pending)
    jobs = [_UnitJob(unit, document.languages[0], memory) for unit in pending]
    num_fuzzy = 0
    for job in jobs:
        if memory and job.missing_texts and (similar := memory.fuzzy(job.unit.source, least)):
            job.unit.suggestions = [Suggestion(*similar)]
            num_fuzzy += 1
    missing = dict.fromkeys((job.unit.format, text) for job in jobs for text in job.missing_texts)
    translations = _translate(missing, translator, confidence, progress)
    num_broken = sum(job.finish(translations, final) for job in jobs)
    num_exact = sum(job.unit.match == "exact" for job in jobs)
    num_unsafe = sum(unit.is_unsafe for unit in pending)
    counts = len(jobs) - num_exact, num_exact, num_fuzzy, num_kept, num_broken, num_unsafe
    return Report(*counts, dict(document.left_out))


class _UnitJob:
    """A unit, its text in parts, and the parts that the model must translate."""

    def __init__(self, unit: Unit, language: str, memory: TranslationMemory | None):
        self.unit = unit
        self.known_targets: dict[str, str] = {}
        # The parts of each piece, and `Piece.write`.
        self.pieces: list[tuple[Sequence[str | SentenceGroup], Callable[[str], str]]] = []
        text = unit.source.strip()
        place = unit.context, unit.form
        # In "xml", equal tags can stand for different codes in another unit.
        self.exact_target = memory.exact(text, *place) if memory and unit.format != "xml" else None
        if self.exact_target is None:
            is_plain = unit.format == "text"
            for piece in unit.pieces or [Piece(unit.source, str)]:
                if isinstance(piece, str):
                    self.pieces.append(([piece], str))
                else:
                    parts = sentence_groups(piece.text, language, is_plain, unit.keeps_lines)
                    self.pieces.append((parts, piece.write))
            if memory and unit.format == "text":
                for group in self.groups():
                    # Look up whole groups and single sentences.
                    for source in (group.line, *group.sentences):
                        if (target := memory.exact(source, *place)) is not None:
                            self.known_targets[source] = target
        self.missing_texts = list(self._missing())

    def groups(self) -> Iterator[SentenceGroup]:
        parts = itertools.chain.from_iterable(parts for parts, _ in self.pieces)
        return (part for part in parts if isinstance(part, SentenceGroup))

    def _missing(self) -> Iterator[str]:
        needs_translation = has_words if self.unit.format == "text" else has_letters
        for group in self.groups():
            if group.line not in self.known_targets:
                yield from (
                    sentence
                    for sentence in group.sentences
                    if sentence not in self.known_targets and needs_translation(sentence)
                )

    def finish(self, translations: _Translations, final: bool) -> bool:
        """Sets the unit's translation and returns whether its placeholders were broken."""
        if self.exact_target is not None:
            text = self.unit.source
            start, end = len(text) - len(text.lstrip()), len(text.rstrip())
            self.unit.set(f"{text[:start]}{self.exact_target}{text[end:]}", "exact", 1.0, final)
            return False
        results = {text: translations[self.unit.format, text] for text in self.missing_texts}
        texts = {text: result.text for text, result in results.items()} | self.known_targets
        text = "".join(write(with_translations(parts, texts)) for parts, write in self.pieces)
        if self.unit.format != "text" and _bare_text(text) == _bare_text(self.unit.source):
            # Nothing was translated: keep the tags and white space of the source.
            text = self.unit.source
        if self.known_targets and not results:
            self.unit.set(text, "exact", 1.0, final)
            return False
        values = (result.confidence for result in results.values())
        confidences = [value for value in values if value is not None]
        # A unit is as good as its worst sentence.
        self.unit.set(text, "machine", min(confidences, default=None), final)
        return any(result.is_broken for result in results.values())


def _bare_text(markup: str) -> str:
    """Returns markup without tags and white space."""
    return _TAG_OR_SPACE.sub("", markup)


def _translate(
    missing: Collection[tuple[str, str]],
    translator: MarkupTranslator,
    confidence: bool,
    progress: Callable[[int, int], object],
) -> _Translations:
    """Returns the translations of texts, by (format, text)."""
    translations: _Translations = {}
    texts_by_format = collections.defaultdict(list)
    for text_format, text in missing:
        texts_by_format[text_format].append(text)
    for text_format, texts in texts_by_format.items():
        for start in range(0, len(texts), _TEXTS_AT_ONCE):
            chunk = texts[start : start + _TEXTS_AT_ONCE]
            # In markup, the translator itself normalises the text between tags.
            model_inputs = list(map(normalized, chunk)) if text_format == "text" else chunk
            translated = translator.translate(model_inputs, format=text_format)
            certainties: list[float | None] = [None] * len(chunk)
            if confidence and text_format == "text":
                certainties = [
                    result.whole for result in confidences(translator.translator, chunk, translated)
                ]
            for text, model_input, result, certainty in zip(
                chunk, model_inputs, translated, certainties, strict=True
            ):
                # An unchanged text keeps the document's spelling.
                translation = text if result.text == model_input else result.text
                is_broken = "placeholders" in result.notes
                translations[text_format, text] = _Translation(translation, certainty, is_broken)
            progress(len(translations), len(missing))
    return translations


class Plan(NamedTuple):
    """Pairs (file to translate, file to write), and the number of skipped files in folders."""

    files: list[tuple[Path, Path]]
    num_skipped: int


def plan_files(paths: Sequence[str | Path], other_inputs: Sequence[str | Path] = ()) -> Plan:
    """Returns the files to translate, and where to write them.

    Args:
      paths: files and folders to translate, then the path to write. The last path is a folder if
        it already exists as one, if there are several inputs, or if the input is a folder.
      other_inputs: further files that must not be replaced, such as the memory.

    Raises:
      UserError: there is no file, an output would replace an input or another output, or an output
        cannot be written.
    """
    if len(paths) < 2:
        raise UserError(
            f"Expected at least two paths, the files to translate and the path to write, got "
            f"{len(paths)}.",
            code="missing_argument",
        )
    *inputs, output = map(Path, paths)
    files: list[tuple[Path, Path]] = []
    num_skipped = 0
    for path in inputs:
        if path.is_dir():
            for file in sorted(filter(Path.is_file, path.rglob("*"))):
                if file.suffix.lower() in EXTENSIONS:
                    files.append((file, output / file.relative_to(path)))
                else:
                    num_skipped += 1
        elif len(inputs) > 1 or output.is_dir():
            files.append((path, output / path.name))
        else:
            files.append((path, output))
    if not files:
        raise UserError(
            f"Expected files with one of {', '.join(EXTENSIONS)}, got none.", code="no_documents"
        )
    files = [(path, translated_name(output)) for path, output in files]
    for path, output in files:
        if path.suffix.lower() not in EXTENSIONS or not path.is_file():
            read_document(path)  # Raises an error before the model is loaded.
        check_parent(output)
    other_inputs = [path for path in other_inputs if path]
    check_outputs([*other_inputs, *(path for path, _ in files)], [output for _, output in files])
    return Plan(files, num_skipped)


def translate_files(
    plan: Plan,
    translator: MarkupTranslator,
    languages: tuple[str, str] = ("", ""),
    memory: str | Path = "",
    everything: bool = False,
    final: bool = False,
    least: float = 0.75,
    confidence: bool = False,
) -> int:
    """Translates files and prints a report of each; returns the number of failures.

    Args:
      plan: from `plan_files`.
      translator: translates text and markup.
      languages: codes of source and target, "" = as in the translator's problem.
      memory: file of a translation memory, "" = none.
      everything: see `translate_document`.
      final: see `translate_document`.
      least: see `translate_document`.
      confidence: see `translate_document`.

    Raises:
      UserError: the memory or the only file cannot be read, or the problem is not plain text.
    """
    problem = translator.translator.problem
    if not problem.is_plain_text:
        raise UserError(
            f"Documents need a problem of plain text, got {problem.name}.", code="not_supported"
        )
    flags = f"--source_language={languages[0]} --target_language={languages[1]}"
    source, target = resolve_languages(flags, languages, problem.languages())
    loaded_memory = TranslationMemory.read(memory, source, target) if memory else None
    num_failed = 0
    for path, output in plan.files:
        try:
            document = read_document(path, source, target)
            with LineProgress(None, 0) as bar:
                show = functools.partial(_update_bar, bar)
                report = translate_document(
                    document, translator, everything, loaded_memory, show, final, least, confidence
                )
            document.save(output)
        except UserError as error:
            if len(plan.files) == 1:
                raise
            num_failed += 1
            print(printable(f"Not translated: {error}"), file=sys.stderr, flush=True)
        else:
            print_beside_bar(f"{output}: {report}")
    if plan.num_skipped:
        print_beside_bar(f"{plan.num_skipped:,} other files in the folders were skipped.")
    return num_failed


def _update_bar(bar: LineProgress, done: int, total: int) -> None:
    """Shows the number of finished sentences and the total, unknown until translation begins."""
    bar.total = total
    bar.update(done - bar.n)
