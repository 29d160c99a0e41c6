"""Placeholders as a stage of a translator: symbols for them, and those that are lost repaired."""

import functools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from t2t_keras.data.problem import Problem
from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.lines import LineStage, Part, Prepared, Searcher, StageContext
from t2t_keras.text.alignment import Alignment, restored_words
from t2t_keras.workbench.placeholders.repair import number_broken, repaired
from t2t_keras.workbench.placeholders.symbols import Shield, shield


class ShieldedLine(Prepared):
    """A line with its `Shield`.

    Args:
      shield: of the line.
      is_checked: whether placeholders that are lost, added or misspelled cost anything.
    """

    def __init__(self, shield: Shield, is_checked: bool):
        super().__init__(shield.text)
        self.shield, self.is_checked = shield, is_checked
        # Asked for the search, and for the repair.
        self.number_broken = functools.cache(self._number_broken)

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
        return [self.number_broken(source, output) for output in outputs]

    def _number_broken(self, source: str, output: str) -> int:
        """Returns how many placeholders of a part are wrong in an output; 0 if unchecked."""
        return number_broken(source, output, self.shield.verbatim) if self.is_checked else 0

    def align(self, source: str, output: str, pairs: Alignment) -> Alignment:
        """See `Prepared`: a symbol may stand for several words."""
        if not self.shield.originals:
            return pairs
        sources, outputs = (restored_words(text, self.restore) for text in (source, output))
        return [(s, t) for word, other in pairs for s in sources[word] for t in outputs[other]]


class Placeholders(LineStage):
    """Keeps placeholders, as %s, {name} and addresses.

    The first hypothesis with the fewest wrong ones is taken, and then repaired. Its note is the
    number of placeholders that were repaired.

    Args:
      symbols: whether the model sees symbols for placeholders.
      check: whether translations are checked.
    """

    name = "placeholders"

    def __init__(self, symbols: bool = False, check: bool = True):
        self.symbols, self.check = symbols, check

    def prepare(self, line: str, verbatim: Sequence[str] = ()) -> ShieldedLine:
        """Shields a line; more pieces of it may be placeholders."""
        return ShieldedLine(shield(line, verbatim, self.symbols), self.check)

    def mend(self, parts: Sequence[Part], translator: Searcher) -> None:
        """Repairs all hypotheses."""
        model = StageContext(translator, self)
        wrong = [
            (draft, rank, output, count)
            for draft in model.drafts(parts)
            for rank, output in enumerate(draft.outputs)
            if (count := draft.prepared.number_broken(draft.source, output))
        ]
        if not wrong:
            return
        owners, _, outputs, _ = zip(*wrong, strict=True)
        alignments = model.align(owners, outputs)
        for (draft, rank, output, count), alignment in zip(wrong, alignments, strict=True):
            verbatim = draft.prepared.shield.verbatim
            draft.replace(rank, repaired(draft.source, output, alignment, verbatim))
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
        numbers = list(notes)
        return Counter(repaired=len(numbers), placeholders_repaired=sum(numbers))

    def report(self, counts: Mapping[str, int]) -> Iterator[str]:
        """See `LineStage`."""
        if counts.get("repaired"):
            yield (
                f"{counts['repaired']:,} translations had other placeholders than their sources: "
                f"{counts['placeholders_repaired']:,} placeholders were repaired."
            )


def has_symbols(problem: Problem) -> bool:
    """Returns whether models of a problem see symbols for placeholders."""
    return "placeholders" in problem.pair_transforms


def placeholders(config: DecodeConfig, problem: Problem) -> Placeholders | None:
    """Keeps placeholders, where the model was trained with symbols or translations are checked."""
    symbols, check = has_symbols(problem), config.check_placeholders
    return Placeholders(symbols, check) if symbols or check else None
