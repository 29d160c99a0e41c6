"""Places the tags of a sentence in its translation.

Every element gets consecutive words of the translation, inside its parent's words. Siblings may be
in any order, and do not overlap. Dynamic programming finds the placement that agrees best with the
word alignment. A tag without text goes next to the word to which its neighbour is aligned.
"""

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np

from t2t_keras.workbench.markup.segments import CLOSE, KEPT, LONE, OPEN, Mark
from t2t_keras.workbench.placeholders.finding import comparison_key

# With more siblings or states than this, siblings keep the order of their aligned words. If there
# are still too many states or steps, tags are placed in proportion to their places in the source.
_MAX_SIBLINGS, _MAX_STATES, _MAX_STEPS = 8, 400, 40_000
# Gain of enclosing a sign that the source lacks: such signs should stay outside of elements.
_OUTSIDE_GAIN = -0.05
# Tie-breakers: for the order of the source, and for the side on which a tag adjoins a word.
_REORDERING_GAIN, _ADJACENT_GAIN, _APART_GAIN = -0.02, 1.5, 0.75
_FORBIDDEN_GAIN = -1e6
# Marks at a place between units of the translation, in order: (number of units before, mark).
Placement = list[tuple[int, Mark]]
# An open node: its number, a bit for each finished child, and whether it has a word.
_Level = tuple[int, int, bool]
# The open nodes, outermost first.
_State = tuple[_Level, ...]
# A step places a mark: the next state, the number of the mark's node, whether the mark closes it.
_Step = tuple[_State, int, bool]
# By state: the possible steps, and the next state after a word; None = no word may follow.
_States = dict[_State, tuple[list[_Step], _State | None]]


@dataclasses.dataclass
class Node:
    """An element, a mark without text, or a kept piece, which is placed as a whole.

    Attributes:
      mark: the mark that opens it, or the mark itself; None = it began in an earlier sentence.
      close: the mark that closes it; None = it continues in the next sentence, or is no element.
      start: number of its first unit in the source.
      end: number of the unit after its last unit.
      children: the nodes inside it, in order.
    """

    mark: Mark | None
    close: Mark | None = None
    start: int = 0
    end: int = 0
    children: list["Node"] = dataclasses.field(default_factory=list)

    @property
    def is_element(self) -> bool:
        """Whether it can have words."""
        return self.mark is None or self.mark.kind != LONE

    @property
    def continues(self) -> bool:
        """Whether its end is in a later sentence."""
        return self.is_element and self.close is None and not self.is_kept

    @property
    def is_kept(self) -> bool:
        """Whether it is a kept piece."""
        return self.mark is not None and self.mark.kind == KEPT


def tree_of(
    marks: Sequence[Mark], gaps: Sequence[tuple[int, int]], num_units: int
) -> tuple[Node, list[Node]]:
    """Returns the root of a sentence's tree, and the elements that are open where it begins.

    Args:
      marks: marks of the sentence, in order.
      gaps: numbers of units before the start and the end of each mark; equal except kept pieces.
      num_units: number of units of the sentence.
    """
    opened_here = {mark.element for mark in marks if mark.kind == OPEN}
    root = Node(None, None, 0, num_units)
    path = [root]
    for mark in marks:
        if mark.kind != CLOSE or mark.element in opened_here:
            continue
        node = Node(None, None, 0, num_units)
        path[-1].children.append(node)
        path.append(node)
    open_nodes = path[1:]
    for mark, (start, end) in zip(marks, gaps, strict=True):
        if mark.kind == CLOSE:
            path[-1].close, path[-1].end = mark, start
            path.pop()
            continue
        node = Node(mark, None, start, end if mark.kind == KEPT else start)
        path[-1].children.append(node)
        if mark.kind == OPEN:
            node.end = num_units
            path.append(node)
    return root, open_nodes


class Placer:
    """Places the marks of a sentence.

    Args:
      root: from `tree_of`.
      open_nodes: the open elements, from `tree_of`.
      agreement: float [target units, source units], see `translated.agreement`.
      is_word: for source and target, whether each unit is a word, not a sign.
      texts: texts of the target's units.
      kept_texts: the text of each KEPT mark in the translation, by the mark's `id`.
    """

    def __init__(
        self,
        root: Node,
        open_nodes: Sequence[Node],
        agreement: np.ndarray,
        is_word: tuple[Sequence[bool], Sequence[bool]],
        texts: Sequence[str],
        kept_texts: dict[int, str],
    ):
        self._agreement, self._is_word = agreement, is_word
        self._texts, self._kept_texts = texts, kept_texts
        self._num_units = len(agreement)
        self._nodes: list[Node] = []
        self._children: list[list[int]] = []
        self._open_numbers = [0]
        numbers = {}
        pending = [root]
        while pending:
            node = pending.pop()
            numbers[id(node)] = len(self._nodes)
            self._nodes.append(node)
            pending += node.children[::-1]
        self._children = [[numbers[id(child)] for child in node.children] for node in self._nodes]
        self._child_index = {child: i for nodes in self._children for i, child in enumerate(nodes)}
        self._open_numbers += [numbers[id(node)] for node in open_nodes]
        # Too large sentences are placed in proportion. There are at least as many states as nodes.
        count = len(self._nodes)
        self._is_small = count <= _MAX_STATES and count * max(agreement.shape) <= _MAX_STEPS
        if not self._is_small:
            return
        self._gains = [self._gain(node) for node in self._nodes]
        self._bonuses = {
            number: self._bonus(node, node.mark)
            for number, node in enumerate(self._nodes)
            if node.mark and node.mark.kind == LONE
        }
        places = [self._mean_place(number) for number in range(len(self._nodes))]
        self._in_order = [
            sorted(range(len(nodes)), key=lambda i: (places[nodes[i]], i))
            for nodes in self._children
        ]

    def _gain(self, node: Node) -> np.ndarray:
        """Returns, for each unit, the gain if a node contains it: float [target units]."""
        if not node.is_element:
            return np.zeros(self._num_units)
        share = self._agreement[:, node.start : node.end].sum(axis=1)
        gains = np.where(self._agreement.sum(axis=1) > 0, 2 * share - 1, _OUTSIDE_GAIN)
        if node.is_kept:
            key = comparison_key(self._kept_texts[id(node.mark)])
            is_equal = np.array([comparison_key(text) == key for text in self._texts], bool)
            return np.where(is_equal, gains + 4, _FORBIDDEN_GAIN)
        return gains

    def _bonus(self, node: Node, mark: Mark) -> np.ndarray:
        """Returns, for each gap, the gain if a textless mark is there: float [target units + 1]."""
        before, after = np.zeros(self._num_units + 1), np.zeros(self._num_units + 1)
        num_source_units = self._agreement.shape[1]
        if node.start:
            before[1:] = self._agreement[:, node.start - 1]
        else:
            before[0] = 1
        if node.start < num_source_units:
            after[:-1] = self._agreement[:, node.start]
        else:
            after[-1] = 1
        left_gain = _APART_GAIN if mark.space_before and not mark.space_after else _ADJACENT_GAIN
        right_gain = _APART_GAIN if mark.space_after and not mark.space_before else _ADJACENT_GAIN
        return left_gain * before + right_gain * after

    def _mean_place(self, number: int) -> float:
        node = self._nodes[number]
        if not node.is_element:
            return float(self._bonuses[number].argmax())
        if node.is_kept and self._num_units:
            return float(self._gains[number].argmax())
        gains = np.maximum(self._gains[number], 0)
        total = gains.sum()
        return float(gains @ np.arange(self._num_units) / total) if total else float(node.start)

    def place(self) -> Placement:
        """Returns all marks with their places; a kept piece is placed before its text."""
        siblings = max(map(len, self._children))
        orders = (True, False) if siblings <= _MAX_SIBLINGS else (False,)
        for any_order, must_have_words in itertools.product(orders, (True, False)):
            states = self._states(any_order, must_have_words) if self._is_small else None
            if states and len(states) * self._num_units <= _MAX_STEPS:
                placement = self._best_placement(states, must_have_words)
                if placement is not None:
                    return placement
        return self._place_in_proportion()

    def _states(self, any_order: bool, must_have_words: bool) -> _States | None:
        """Returns all reachable states with their steps, predecessors first; None = too many."""
        start_state: _State = tuple((number, 0, number == 0) for number in self._open_numbers)
        steps_of: _States = {}
        # The states of a frontier have the same number of placed marks.
        frontiers: dict[int, dict[_State, None]] = {0: {start_state: None}}
        num_placed = 0
        while num_placed in frontiers:
            frontier = list(frontiers[num_placed])
            for state in frontier:
                steps = self._steps(state, any_order, must_have_words)
                after_word = self._after_word(state)
                steps_of[state] = steps, after_word
                if (
                    after_word is not None
                    and after_word not in steps_of
                    and after_word not in frontiers[num_placed]
                ):
                    frontiers[num_placed][after_word] = None
                    frontier.append(after_word)
                for next_state, _, _ in steps:
                    frontiers.setdefault(num_placed + 1, {})[next_state] = None
                if len(steps_of) > _MAX_STATES:
                    return None
            num_placed += 1
        return steps_of

    def _steps(self, state: _State, any_order: bool, must_have_words: bool) -> list[_Step]:
        """Returns a step for each mark that may come next."""
        number, finished, has_word = state[-1]
        children = self._children[number]
        steps: list[_Step] = []
        if any_order:
            unfinished = [i for i in range(len(children)) if not finished >> i & 1]
        else:
            unfinished = self._in_order[number][finished.bit_count() :][:1]
        for i in unfinished:
            child = children[i]
            if self._nodes[child].is_element:
                steps.append(((*state, (child, 0, False)), child, False))
            else:
                steps.append(((*state[:-1], (number, finished | 1 << i, has_word)), child, False))
        node = self._nodes[number]
        is_complete = len(state) > 1 and finished == (1 << len(children)) - 1 and not node.continues
        needs_word = node.is_kept or (must_have_words and self._has_word(node))
        if is_complete and (has_word or not needs_word):
            parent, parent_finished, parent_has_word = state[-2]
            i = self._child_index[number]
            level = parent, parent_finished | 1 << i, parent_has_word or has_word
            steps.append(((*state[:-2], level), number, True))
        return steps

    def _after_word(self, state: _State) -> _State | None:
        innermost, _, has_word = state[-1]
        if self._nodes[innermost].is_kept and has_word:
            return None
        return tuple((number, finished, True) for number, finished, _ in state)

    def _best_placement(self, states: _States, must_have_words: bool) -> Placement | None:
        indices = {state: index for index, state in enumerate(states)}
        gains = np.array(
            [
                sum((self._gains[number] for number, _, _ in state), np.zeros(self._num_units))
                for state in states
            ]
        ).reshape(len(states), self._num_units)
        scores = np.full(len(states), -np.inf)
        scores[0] = 0.0
        mark_origins: list[dict[int, tuple[int, int, bool]]] = []
        word_origins: list[dict[int, int]] = []
        for gap in range(self._num_units + 1):
            by_mark: dict[int, tuple[int, int, bool]] = {}
            for state, (steps, _) in states.items():
                score_so_far = scores[indices[state]]
                if score_so_far == -np.inf:
                    continue
                for next_state, number, is_closing in steps:
                    score = score_so_far + self._step_gain(state, number, is_closing, gap)
                    next_index = indices[next_state]
                    if score > scores[next_index]:
                        scores[next_index] = score
                        by_mark[next_index] = indices[state], number, is_closing
            mark_origins.append(by_mark)
            if gap == self._num_units:
                break
            next_scores = np.full(len(states), -np.inf)
            by_word: dict[int, int] = {}
            for state, (_, after_word) in states.items():
                index = indices[state]
                if after_word is None or scores[index] == -np.inf:
                    continue
                # Punctuation alone does not count as a word, except in a kept piece.
                is_word = self._is_word[1][gap] or self._nodes[state[-1][0]].is_kept
                next_state = after_word if is_word else state
                score, next_index = scores[index] + gains[index, gap], indices[next_state]
                if score > next_scores[next_index]:
                    next_scores[next_index] = score
                    by_word[next_index] = index
            word_origins.append(by_word)
            scores = next_scores
        final = [indices[state] for state in states if self._is_end(state, must_have_words)]
        best = max(final, key=lambda index: scores[index], default=None)
        if best is None or scores[best] < _FORBIDDEN_GAIN / 2:
            return None
        return self._trace_back(best, mark_origins, word_origins)

    def _step_gain(self, state: _State, number: int, is_closing: bool, gap: int) -> float:
        if is_closing:
            return 0.0
        _, finished, _ = state[-1]
        place = self._child_index[number]
        num_skipped = place - (finished & ((1 << place) - 1)).bit_count()
        bonus = self._bonuses[number][gap] if number in self._bonuses else 0.0
        return bonus + _REORDERING_GAIN * num_skipped

    def _has_word(self, node: Node) -> bool:
        return any(self._is_word[0][node.start : node.end])

    def _is_end(self, state: _State, must_have_words: bool) -> bool:
        for level, (number, finished, has_word) in enumerate(state):
            node, children = self._nodes[number], self._children[number]
            unfinished = [child for i, child in enumerate(children) if not finished >> i & 1]
            next_children = [state[level + 1][0]] if level + 1 < len(state) else []
            if unfinished != next_children or (level and not node.continues):
                return False
            if must_have_words and level and not has_word and self._has_word(node):
                return False
        return True

    def _trace_back(
        self,
        index: int,
        mark_origins: Sequence[dict[int, tuple[int, int, bool]]],
        word_origins: Sequence[dict[int, int]],
    ) -> Placement:
        """Returns the placement that leads to the state `index`, by each gap's preceding states."""
        placement: Placement = []
        gap = self._num_units
        while gap > 0 or index in mark_origins[0]:
            if index in mark_origins[gap]:
                index, number, is_closing = mark_origins[gap][index]
                node = self._nodes[number]
                mark = node.close if is_closing else node.mark
                if mark is not None:
                    placement.append((gap, mark))
            else:
                gap -= 1
                index = word_origins[gap][index]
        return placement[::-1]

    def _place_in_proportion(self) -> Placement:
        placement: Placement = []
        scale = self._num_units / max(self._agreement.shape[1], 1)
        pending: list[Node | tuple[int, Mark]] = [self._nodes[0]]
        while pending:
            node = pending.pop()
            if isinstance(node, tuple):
                placement.append(node)
                continue
            if node.mark is not None:
                placement.append((round(node.start * scale), node.mark))
            if node.close is not None:
                pending.append((round(node.end * scale), node.close))
            pending += node.children[::-1]
        return placement
