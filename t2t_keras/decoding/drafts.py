"""What a stage sees of the hypotheses that it mends, and the model that it may use for that."""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from t2t_keras.decoding.lines import LineStage, Part, Searcher, encode_text
from t2t_keras.decoding.translation import Hypothesis
from t2t_keras.text.alignment import Alignment


class Draft:
    """A part with its hypotheses, as a stage sees them.

    Args:
      part: the same as the model sees it.
      stage: number of the stage.
      name: of the stage.

    Attributes:
      part: the same as the model sees it.
      prepared: what the stage has prepared of the line.
      source: the text.
    """

    def __init__(self, part: Part, stage: int, name: str):
        self.part, self._stage, self._name = part, stage, name
        self.prepared: Any = part.line.steps[stage]
        self.source = part.line.original(part.source, stage)

    def hide(self, output: str) -> str:
        """Returns an output as the model has it."""
        return self.part.line.hide(output, self._stage)

    @property
    def output(self) -> str:
        """What was found, the best of it."""
        return self.part.line.restore(self.part.hypotheses[0].text, self._stage)

    @property
    def outputs(self) -> list[str]:
        """What was found, best first."""
        return [self.part.line.restore(each.text, self._stage) for each in self.part.hypotheses]

    @property
    def score(self) -> float:
        """That of the first output."""
        return self.part.hypotheses[0].score

    def replace(self, rank: int, output: str) -> None:
        """Replaces an output; its score stays."""
        before = self.part.hypotheses[rank]
        self.part.hypotheses[rank] = dataclasses.replace(before, text=self.hide(output))

    def take(self, other: "Draft") -> None:
        """Takes the hypotheses of another draft of this part, and all that is known of them."""
        part = other.part
        self.part.hypotheses, self.part.rank = part.hypotheses, part.rank
        self.part.notes = dict(part.notes)

    def note(self, note: Any) -> None:
        """Sets what the stage says of the first output."""
        self.part.notes[self._name] = note

    def costs(self) -> tuple[float, ...]:
        """Returns those of the first output by the stages before."""
        return self.part.cost()[: self._stage]

    def continued(self, beginning: np.ndarray) -> "Draft":
        """Returns a draft of the same part without hypotheses, whose outputs begin with ids."""
        part = dataclasses.replace(self.part, prefix=beginning, hypotheses=[], rank=0, notes={})
        return Draft(part, self._stage, self._name)


class StageContext:
    """What one stage may use to mend drafts, many at a time: alignment, search and scores.

    Args:
      translator: has it.
      stage: one of the translator's.
    """

    def __init__(self, translator: Searcher, stage: LineStage):
        self._translator, self._name = translator, stage.name
        self._stage = [each.name for each in translator.stages].index(stage.name)

    def drafts(self, parts: Iterable[Part]) -> list[Draft]:
        """Returns parts as the stage sees them."""
        return [Draft(part, self._stage, self._name) for part in parts]

    def prefix(self, draft: Draft) -> str:
        """Returns how each output of a draft must begin."""
        [text] = self._translator.tokenizer.decode([draft.part.prefix])
        return draft.part.line.restore(text, self._stage)

    def align(self, drafts: Sequence[Draft], outputs: Sequence[str]) -> list[Alignment]:
        """Returns pairs of words (source, output) for an output of each draft."""
        parts, texts = [draft.part for draft in drafts], _hidden(drafts, outputs)
        found = self._translator.align_parts(parts, texts)
        return [
            part.line.align(part.source, text, part.words_of_source(pairs), self._stage)
            for part, text, pairs in zip(parts, texts, found, strict=True)
        ]

    def search(self, drafts: Sequence[Draft], beginnings: Sequence[str]) -> list[Draft]:
        """Returns new drafts whose outputs begin so, mended by the stages before."""
        begun = [
            draft.continued(ids[:-1])
            for draft, ids in zip(drafts, self._encoded(drafts, beginnings), strict=True)
        ]
        self._translator.search_parts([draft.part for draft in begun], self._stage)
        return begun

    def score(self, drafts: Sequence[Draft], outputs: Sequence[str]) -> list[Draft | None]:
        """Returns new drafts with an output each, scored as by a search; None = it is too long."""
        targets = self._encoded(drafts, outputs)
        longest = self._translator.config.longest_output
        fit = [
            number
            for number, draft in enumerate(drafts)
            if len(targets[number]) <= longest(len(draft.part.ids))
        ]
        pairs = [drafts[number].part.ids for number in fit], [targets[number] for number in fit]
        scored: list[Draft | None] = [None] * len(drafts)
        for row, score in self._translator.engine.scores(*pairs) if fit else ():
            draft, output = drafts[fit[row]], outputs[fit[row]]
            other = draft.continued(draft.part.prefix)
            other.part.hypotheses.append(Hypothesis(draft.hide(output), score))
            scored[fit[row]] = other
        return scored

    def _encoded(self, drafts: Sequence[Draft], outputs: Sequence[str]) -> list[np.ndarray]:
        return encode_text(_hidden(drafts, outputs), self._translator.tokenizer)


def _hidden(drafts: Sequence[Draft], outputs: Sequence[str]) -> list[str]:
    return [draft.hide(output) for draft, output in zip(drafts, outputs, strict=True)]
