"""`translate_document`: the untranslated units of a document, by a model and a memory."""

import collections
import dataclasses
import itertools
import re
from collections.abc import Callable, Iterator, Sequence

from t2t_keras.text.files import has_letters, normalized
from t2t_keras.workbench.documents.document import Document, Piece, Suggestion, Unit
from t2t_keras.workbench.documents.memory import TranslationMemory
from t2t_keras.workbench.documents.segments import Segment, laid_out, segmented
from t2t_keras.workbench.placeholders import has_words

# Texts that are translated together: more would only make the bar jump.
_AT_ONCE = 1024
_TAG_OR_SPACE = re.compile(r"<[^<>]*>|\s+")


@dataclasses.dataclass(frozen=True)
class Report:
    """What was done to the units of a document.

    Attributes:
      translated: units that the model translated.
      from_memory: units that the translation memory had.
      fuzzy: units of the model for which the memory has something similar.
      kept: units that were translated before.
      broken: units of the model in which a placeholder was lost or added, and repaired.
      unsafe: units whose translation could break the program, which stay marked for review, or
      that the format cannot hold, where the source stays.
      left_out: pieces of text that are in no unit, by the reason.
    """

    translated: int = 0
    from_memory: int = 0
    fuzzy: int = 0
    kept: int = 0
    broken: int = 0
    unsafe: int = 0
    left_out: dict[str, int] = dataclasses.field(default_factory=dict)

    def __str__(self) -> str:
        counts = [f"{self.translated:,} translated"]
        counts += [f"{self.from_memory:,} from the memory"] * bool(self.from_memory)
        counts += [f"{self.fuzzy:,} with something similar in it"] * bool(self.fuzzy)
        counts += [f"{self.kept:,} kept"] * bool(self.kept)
        counts += [f"{self.broken:,} with repaired placeholders"] * bool(self.broken)
        counts += [f"{self.unsafe:,} unsafe for the program or the file"] * bool(self.unsafe)
        counts += [f"{count:,} left out: {reason}" for reason, count in self.left_out.items()]
        return ", ".join(counts)


@dataclasses.dataclass(frozen=True)
class _Found:
    """A translation, how sure the model is of it, and whether placeholders were broken."""

    text: str
    confidence: float | None
    is_broken: bool


# By format and text.
_Translations = dict[tuple[str, str], _Found | None]


def translate_document(
    document: Document,
    translator,
    everything: bool = False,
    memory: TranslationMemory | None = None,
    progress: Callable[[int, int], object] = lambda done, total: None,
    final: bool = False,
    least: float = 0.75,
    confidence: bool = False,
) -> Report:
    """Translates the units of a document that have no translation.

    Text is split into sentences; what is the same is translated once.

    Args:
      document: what `read_document` returned; `save` then writes it.
      translator: a `MarkupTranslator`.
      everything: also translate anew what is translated.
      memory: what it has is taken, what is similar is suggested.
      progress: takes the number of sentences that are done, and of all.
      final: mark translations as good, not as in need of a review.
      least: how similar a suggestion of the memory must be, 0 to 1.
      confidence: also tell how sure the model is of each text without markup, as its `quality`.

    Raises:
      UserError: as `Translator.translate`.
    """
    pending = [unit for unit in document.units if everything or not unit.is_translated]
    kept = len(document.units) - len(pending)
    jobs = [_Job(unit, document.languages[0], memory) for unit in pending]
    translations: _Translations = dict.fromkeys(
        (job.unit.format, text) for job in jobs for text in job.missing
    )
    fuzzy = 0
    for job in jobs:
        if memory and job.missing and (found := memory.fuzzy(job.unit.source, least)):
            job.unit.suggestions = [Suggestion(*found)]
            fuzzy += 1
    _translate(translations, translator, confidence, progress)
    broken = sum(job.finish(translations, final) for job in jobs)
    known = sum(job.unit.match == "exact" for job in jobs)
    unsafe = sum(unit.is_unsafe for unit in pending)
    return Report(len(jobs) - known, known, fuzzy, kept, broken, unsafe, dict(document.left_out))


class _Job:
    """A unit, the parts of its text, and those that the model has to translate."""

    def __init__(self, unit: Unit, language: str, memory: TranslationMemory | None):
        self.unit = unit
        self.known: dict[str, str] = {}
        # The parts of each piece, and what its translation becomes in the unit's.
        self.pieces: list[tuple[Sequence[str | Segment], Callable[[str], str]]] = []
        text = unit.source.strip()
        # The tags of a masked text stand for different codes in each text.
        place = unit.context, unit.form
        self.whole = memory.exact(text, *place) if memory and unit.format != "xml" else None
        if self.whole is None:
            is_plain = unit.format == "text"
            for piece in unit.pieces or [Piece(unit.source, str)]:
                if isinstance(piece, str):
                    self.pieces.append(([piece], str))
                else:
                    parts = segmented(piece.text, language, is_plain, unit.keeps_lines)
                    self.pieces.append((parts, piece.written))
            for segment in self.segments() if memory and unit.format == "text" else ():
                # Look up wrapped sentences and groups of sentences as a whole and one by one.
                for each in (segment.line, *segment.sentences):
                    if (target := memory.exact(each, *place)) is not None:
                        self.known[each] = target
        self.missing = list(self._missing())

    def segments(self) -> Iterator[Segment]:
        parts = itertools.chain.from_iterable(parts for parts, _ in self.pieces)
        return (part for part in parts if isinstance(part, Segment))

    def _missing(self) -> Iterator[str]:
        is_text = has_words if self.unit.format == "text" else has_letters
        for segment in self.segments():
            if segment.line not in self.known:
                yield from (
                    each for each in segment.sentences if each not in self.known and is_text(each)
                )

    def finish(self, translations: _Translations, final: bool) -> bool:
        """Sets the unit's translation and returns whether its placeholders were broken."""
        if self.whole is not None:
            self.unit.set(_in_space_of(self.unit.source, self.whole), "exact", 1.0, final)
            return False
        found = [translations[self.unit.format, text] for text in self.missing]
        texts = {text: each.text for text, each in zip(self.missing, found, strict=True)}
        texts |= self.known
        text = "".join(written(laid_out(parts, texts)) for parts, written in self.pieces)
        if self.unit.format != "text" and _letters(text) == _letters(self.unit.source):
            # Keep its tags and its white space.
            text = self.unit.source
        if self.known and not found:
            self.unit.set(text, "exact", 1.0, final)
            return False
        sure = [each.confidence for each in found if each.confidence is not None]
        # A text is as good as its worst sentence.
        self.unit.set(text, "machine", min(sure, default=None), final)
        return any(each.is_broken for each in found)


def _letters(markup: str) -> str:
    """Returns markup without tags and white space."""
    return _TAG_OR_SPACE.sub("", markup)


def _translate(translations: _Translations, translator, confidence: bool, progress) -> None:
    """Translates what is the key of each entry."""
    kinds = collections.defaultdict(list)
    for kind, text in translations:
        kinds[kind].append(text)
    done = 0
    for kind, texts in kinds.items():
        for start in range(0, len(texts), _AT_ONCE):
            chunk = texts[start : start + _AT_ONCE]
            # Markup is normalised where its text is read: tags and attributes stay as they are.
            sent = list(map(normalized, chunk)) if kind == "text" else chunk
            translated = translator.translate(sent, format=kind)
            certainties = [None] * len(chunk)
            if confidence and kind == "text":
                from t2t_keras.decoding.confidence import confidences

                certainties = [
                    result.whole for result in confidences(translator.translator, chunk, translated)
                ]
            for text, line, result, certainty in zip(
                chunk, sent, translated, certainties, strict=True
            ):
                is_broken = "placeholders" in result.notes
                # An unchanged text keeps the spelling of the document.
                translation = text if result.text == line else result.text
                translations[kind, text] = _Found(translation, certainty, is_broken)
            done += len(chunk)
            progress(done, len(translations))


def _in_space_of(text: str, other: str) -> str:
    """Returns another text with the white space that a text has around it."""
    start, end = len(text) - len(text.lstrip()), len(text.rstrip())
    return text[:start] + other + text[end:]
