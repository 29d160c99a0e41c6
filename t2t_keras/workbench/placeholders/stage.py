"""The stage of a translator that keeps placeholders: by symbols, and by repair of the output."""

import functools
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from t2t_keras.data.problem import Problem
from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.lines import Draft, LineStage, Prepared, StageContext
from t2t_keras.text.alignment import Alignment, count_words, restored_word_ranges, word_spans
from t2t_keras.workbench.placeholders.finding import (
    Placeholder,
    find,
    is_reordered,
    missing,
    unmatched,
    unnumbered_placeholders,
    whole_word_pattern,
)
from t2t_keras.workbench.placeholders.symbols import Shield, shield

# Several rounds, because an edit and the text beside it may form a new placeholder.
_MAX_ROUNDS = 4
# Placing a placeholder takes time linear in the text; any beyond this number are appended.
_MAX_PLACED = 64
_PUNCTUATION = ".,:;!?…\u3002\uff0c\uff1a\uff1b\uff01\uff1f"

_Edit = tuple[int, int, str]  # start, end, replacement


def count_wrong(source: str, target: str, verbatim: Sequence[str] = ()) -> int:
    """Returns the number of placeholders of a source that are wrong in its translation."""
    num_wrong = max(map(len, missing(source, target, verbatim)))
    return num_wrong or int(is_reordered(source, target))


def repair(
    source: str, target: str, alignment: Alignment = (), verbatim: Sequence[str] = ()
) -> str:
    """Returns a translation with the placeholders of its source.

    A lost placeholder replaces an added or misspelled one. Otherwise it is inserted next to the
    words aligned with its neighbours, or at the end. Added placeholders that replace
    nothing are removed. Takes time linear in the text.

    Args:
      source: the text.
      target: its translation.
      alignment: pairs (source word, target word) as numbered by `word_numbers`.
      verbatim: see `find`.
    """
    for _ in range(_MAX_ROUNDS):
        present = find(target, verbatim)
        lost, added = unmatched(find(source, verbatim), present)
        if not (lost or added):
            break
        edits: list[_Edit] = [
            (old.start, old.end, new.text) for old, new in zip(added, lost, strict=False)
        ]
        edits += [_removal(target, placeholder) for placeholder in added[len(lost) :]]
        edits += _insertions(source, target, lost[len(added) :], present, alignment, set(verbatim))
        target, alignment = _apply_edits(target, edits), ()
    if is_reordered(source, target):
        sides = [unnumbered_placeholders(find(text)) for text in (source, target)]
        pairs = zip(*sides, strict=True)
        target = _apply_edits(target, [(old.start, old.end, new.text) for new, old in pairs])
    if count_wrong(source, target, verbatim):
        return _plain_words(source, target, verbatim)
    return target


def _insertions(
    source: str,
    target: str,
    lost: Sequence[Placeholder],
    present: Sequence[Placeholder],
    alignment: Alignment,
    verbatim: Collection[str],
) -> list[_Edit]:
    """Returns the edits that insert lost placeholders into a translation."""
    is_used = bytearray(len(target))  # for each character
    for start, end, _ in present:
        is_used[start:end] = b"\1" * (end - start)
    edits: list[_Edit] = []
    for placeholder in lost[:_MAX_PLACED]:
        span = _find_misspelled(placeholder.text, target, is_used, placeholder.text in verbatim)
        if not span and placeholder.text in verbatim:
            span = _find_translated(source, target, placeholder, alignment)
        if span:
            start, end = span
            is_used[start:end] = b"\1" * (end - start)
            edits.append((start, end, placeholder.text))
        else:
            edits.append(_insertion(source, target, placeholder, alignment))
    if appended := " ".join(placeholder.text for placeholder in lost[_MAX_PLACED:]):
        edits.append((len(target), len(target), f" {appended}"))
    return edits


def _plain_words(source: str, target: str, verbatim: Sequence[str]) -> str:
    """Returns the plain words of a translation, followed by all placeholders."""
    plain = [word for word in target.split() if not re.search(r"[^\w'.,:;!?\-]|[\d_]", word)]
    return " ".join([*plain, *(placeholder.text for placeholder in find(source, verbatim))])


def _find_misspelled(
    text: str, target: str, is_used: Sequence[int], is_verbatim: bool
) -> tuple[int, int] | None:
    """Returns (start, end) of a placeholder with wrong case or inner spaces; None = not found."""
    pattern = r"\s*".join(re.escape(character) for character in text if not character.isspace())
    pattern = whole_word_pattern(text, pattern) if is_verbatim else pattern
    for match in re.finditer(pattern, target, re.IGNORECASE):
        start, end = match.span()
        # `find` may have found a part of "% s".
        if not any(is_used[start:end]):
            return start, end
    return None


def _find_translated(
    source: str, target: str, lost: Placeholder, alignment: Alignment
) -> tuple[int, int] | None:
    """Returns (start, end) of the translation of a lost piece, which should not be translated."""
    first, last = (count_words(source[: place + 1]) - 1 for place in (lost.start, lost.end - 1))
    aligned = sorted({t for s, t in alignment if first <= s <= last})
    spans = word_spans(target)
    if not aligned or aligned[-1] >= len(spans) or aligned[-1] - aligned[0] > last - first + 1:
        return None
    start, end = spans[aligned[0]][0], spans[aligned[-1]][1]
    words = target[start:end]
    if find(words):
        return None
    # Punctuation around the words stays.
    inside = re.search(r"\w(?:.*\w)?", words, re.DOTALL)
    return inside and (start + inside.start(), start + inside.end())


def _removal(target: str, added: Placeholder) -> _Edit:
    start, end = added.start, added.end
    if target[start - 1 : start] == " " and target[end : end + 1] in ("", " ", *_PUNCTUATION):
        start -= 1
    return start, end, ""


def _insertion(source: str, target: str, lost: Placeholder, alignment: Alignment) -> _Edit:
    """Returns the edit that inserts a placeholder next to the words aligned with its neighbours."""
    word = count_words(source[: lost.start + 1]) - 1
    spans = word_spans(target)
    pairs = [(s, t) for s, t in alignment if t < len(spans)]
    place, is_before = len(target), False
    if pairs:
        nearest, aligned = min(
            pairs, key=lambda pair: (abs(pair[0] - word), pair[0] > word, -pair[1])
        )
        is_before = nearest > word
        place = spans[aligned][0] if is_before else spans[aligned][1]
    if not is_before:
        # Before the full stop of "file %s.", but after the colon of "file: %s".
        begins_clause = source[: lost.start].rstrip()[-1:] in ("", *_PUNCTUATION)
        place = place if begins_clause else len(target[:place].rstrip(_PUNCTUATION))
    space_before = "" if target[place - 1 : place] in ("", " ") or not place else " "
    space_after = "" if target[place : place + 1] in ("", " ", *_PUNCTUATION) else " "
    return place, place, f"{space_before}{lost.text}{space_after}"


def _apply_edits(text: str, edits: Iterable[_Edit]) -> str:
    parts, position = [""], 0
    for start, end, replacement in sorted(edits, key=lambda edit: edit[:2]):
        if start > position:
            parts.append(text[position:start])
        position = max(end, position)
        if not replacement:
            continue
        if _clash(parts[-1][-1:] or " ", replacement[0]):
            replacement = f" {replacement}"
        # An address extends to the next space.
        after = text[position : position + 1]
        if after and (_clash(replacement[-1], after) or ("://" in replacement and after != " ")):
            replacement = f"{replacement} "
        parts.append(replacement)
    return "".join([*parts, text[position:]])


def _clash(before: str, after: str) -> bool:
    """Returns whether two adjacent characters could belong to the same placeholder."""
    signs = "%_$&\\@{(:/-+#"
    return (before.isalnum() or before in signs) and (after.isalnum() or after in signs)


class ShieldedLine(Prepared):
    """A line with its `Shield`.

    Args:
      shield: the line's shield.
      is_checked: whether wrong placeholders count as costs.
    """

    def __init__(self, shield: Shield, is_checked: bool):
        super().__init__(shield.text)
        self.shield, self.is_checked = shield, is_checked
        # Cached, since both search and repair need it.
        self.count_wrong = functools.cache(self._count_wrong)

    def original(self, source: str) -> str:
        """See `Prepared`."""
        return self.shield.restore(source)

    def hide(self, output: str) -> str:
        """See `Prepared`."""
        return self.shield.hide(output)

    def restore(self, output: str) -> str:
        """See `Prepared`."""
        return self.shield.restore(output)

    def costs(self, source: str, outputs: Sequence[str]) -> Sequence[float]:
        """See `Prepared`."""
        return [self.count_wrong(source, output) for output in outputs]

    def _count_wrong(self, source: str, output: str) -> int:
        """Returns the number of wrong placeholders in an output; 0 if unchecked."""
        return count_wrong(source, output, self.shield.verbatim) if self.is_checked else 0

    def align(self, source: str, output: str, pairs: Alignment) -> Alignment:
        """See `Prepared`: a symbol may represent several words."""
        if not self.shield.originals:
            return pairs
        sources, outputs = (restored_word_ranges(text, self.restore) for text in (source, output))
        return [
            (s, t)
            for source_word, output_word in pairs
            for s in sources[source_word]
            for t in outputs[output_word]
        ]


class PlaceholderStage(LineStage):
    """Keeps placeholders, such as %s, {name} and addresses.

    Chooses the first hypothesis with the fewest wrong placeholders, and repairs it. The stage's
    note is the number of repaired placeholders.

    Args:
      symbols: whether the model sees symbols for placeholders.
      check: whether translations are checked.
    """

    name = "placeholders"

    def __init__(self, symbols: bool = False, check: bool = True):
        self.symbols, self.check = symbols, check

    def prepare(self, line: str, verbatim: Sequence[str] = ()) -> ShieldedLine:
        """Shields a line; see `find` for `verbatim`."""
        return ShieldedLine(shield(line, verbatim, self.symbols), self.check)

    def mend(self, drafts: Sequence[Draft], context: StageContext) -> None:
        """Repairs all hypotheses."""
        wrong_outputs = [
            (draft, rank, output, count)
            for draft in drafts
            for rank, output in enumerate(draft.outputs)
            if (count := draft.prepared.count_wrong(draft.source, output))
        ]
        if not wrong_outputs:
            return
        owners, _, outputs, _ = zip(*wrong_outputs, strict=True)
        alignments = context.align(owners, outputs)
        for (draft, rank, output, count), alignment in zip(wrong_outputs, alignments, strict=True):
            verbatim = draft.prepared.shield.verbatim
            draft.replace(rank, repair(draft.source, output, alignment, verbatim))
            if rank == 0:
                draft.note(count)

    def note(self, notes: Sequence[int]) -> int:
        """Returns the number of repaired placeholders."""
        return sum(notes)

    def settings(self) -> Mapping[str, Any]:
        """See `LineStage`."""
        return {"symbols": self.symbols, "check": self.check}

    def counts(self, notes: Iterable[int]) -> Counter:
        """See `LineStage`."""
        repairs = list(notes)
        return Counter(repaired=len(repairs), placeholders_repaired=sum(repairs))

    def report(self, counts: Mapping[str, int]) -> Iterator[str]:
        """See `LineStage`."""
        if counts.get("repaired"):
            yield (
                f"Translations with wrong placeholders: {counts['repaired']:,}. "
                f"Placeholders repaired: {counts['placeholders_repaired']:,}."
            )


def placeholders(config: DecodeConfig, problem: Problem) -> PlaceholderStage | None:
    """Keeps placeholders (%s, {name}) by symbols, or with --check_placeholders by repair."""
    symbols, check = PlaceholderStage.name in problem.pair_transforms, config.check_placeholders
    return PlaceholderStage(symbols, check) if symbols or check else None
