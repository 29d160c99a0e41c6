"""The grammar of trees for the search: brackets that match, and a tag for each word."""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from keras import ops

from t2t_keras.decoding.search import IMPOSSIBLE, Limits
from t2t_keras.decoding.tensors import Tensor, gather, on_host
from t2t_keras.parsing.trees import is_tag, symbols_among, words_of
from t2t_keras.special_ids import EOS_ID, SPACE
from t2t_keras.text.tokenizer import Tokenizer

# The maximum in CRAFT's training trees (experiments/parsing).
MAX_OPENINGS = 8


class TreeGrammar:
    """Restricts the search to whole trees over the words of a sentence (a `search.Grammar`).

    Only the innermost open constituent can be closed, and not before it has a word. The output has
    as many tags as the sentence has words, and ends when they are written and all constituents are
    closed. A constituent can be opened only if the rest of the tree still fits into the maximum
    length; a maximum length below the number of words cuts the tree. `max_openings` is needed
    because a model that has to write more tags than it wants to opens constituents endlessly.

    A prefix is not checked, but the constituents that it opens are closed after it.

    Args:
      tokenizer: the vocabulary, with brackets and tags as pieces.
      lexicon: the tags that a word can have; words that are not in it, or have none of the
        vocabulary's tags there, can have all.
      max_openings: maximum number of opening brackets in a row.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        lexicon: Mapping[str, Collection[str]] | None = None,
        max_openings: int = MAX_OPENINGS,
    ):
        self._max_openings = max_openings
        vocabulary = tokenizer.vocabulary()
        # A symbol that does not follow a space continues a word.
        symbols = {s for s in symbols_among(vocabulary) if SPACE + s in vocabulary}
        tags = sorted(filter(is_tag, symbols))
        labels = sorted(s[1:] for s in symbols.difference(tags) if f"/{s[1:]})" in symbols)
        self._tokenizer, self._num_tags, self._num_labels = tokenizer, len(tags), len(labels)
        self._lexicon = {
            word: row
            for word, word_tags in (lexicon or {}).items()
            if (row := np.array([tag[1:-1] in word_tags for tag in tags])).any()
        }
        # The kind of each symbol: one of the tags, the closing bracket of one of the labels, an
        # opening bracket, the end of sentence, or a symbol that is never allowed.
        names = [*tags, *(f"/{label})" for label in labels)]
        opening, end, nothing = range(len(names), len(names) + 3)
        size = tokenizer.vocab_size
        self._kinds = np.full(size, nothing, np.int32)
        self._depth_changes, self._labels = np.zeros([2, size], np.int32)
        for kind, name in enumerate(names):
            self._kinds[vocabulary[SPACE + name]] = kind
        for label, name in enumerate(labels):
            opening_id, closing_id = vocabulary[f"{SPACE}({name}"], vocabulary[f"{SPACE}/{name})"]
            self._kinds[opening_id], self._labels[opening_id] = opening, label
            self._depth_changes[[opening_id, closing_id]] = 1, -1
        self._kinds[EOS_ID] = end

    def start(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the tags of each word, bool [B, S, tags], and the number of words, int32 [B].

        After the last word there are no tags.
        """
        tags = on_host(self._word_tags, source, self._num_tags)
        return tags, ops.count_nonzero(ops.any(tags, axis=2), axis=1)

    def _word_tags(self, source: np.ndarray) -> np.ndarray:
        word_tags = np.zeros([*source.shape, self._num_tags], bool)
        for row, line in zip(word_tags, self._tokenizer.source.decode(source), strict=True):
            for number, word in enumerate(words_of(line)):
                row[number] = self._lexicon.get(word, True)
        return word_tags

    def mask(
        self, logits: Tensor, live_ids: Tensor, index: Tensor, limits: Limits, data: Any
    ) -> Tensor:
        """Returns logits [B, K, V] with -inf for symbols that are not allowed at `index`."""
        word_tags, num_words = data
        changes = gather(self._depth_changes, live_ids)  # [B, K, L]
        depths = ops.cumsum(changes, axis=2)
        depth = depths[:, :, -1]  # [B, K], as padding changes nothing
        written = ops.count_nonzero(gather(self._kinds, live_ids) < self._num_tags, axis=2)
        missing = num_words[:, None] - written
        # The innermost open constituent is the last one that led to this depth.
        positions = ops.arange(ops.shape(live_ids)[2])
        openings = ops.where((changes > 0) & (depths == depth[:, :, None]), positions, 0)
        opening = ops.max(openings, axis=2, keepdims=True)
        label = gather(self._labels, gather(live_ids, opening, batch_dims=2))
        last_other = ops.where((changes <= 0) & (positions < index), positions, -1)
        openings_before = index - 1 - ops.max(last_other, axis=2)  # In a row.
        may_close = (depth > 0) & ((openings_before == 0) | (missing <= 0))
        # The minimum after a new opening bracket: tags, closing brackets, the end of sentence.
        needed = missing + depth + 2
        may_open = (missing > 0) & (needed < limits.max_lengths[:, None] - index)
        may_open &= openings_before < self._max_openings
        may_end = (missing <= 0) & (depth <= 0)

        word = ops.minimum(written, ops.shape(word_tags)[1] - 1)
        allowed_tags = gather(word_tags, word, batch_dims=1) & (missing > 0)[:, :, None]
        allowed_ends = label == ops.arange(self._num_labels)
        others = ops.stack([may_open, may_end, ops.zeros_like(may_end)], axis=2)
        allowed_kinds = ops.concatenate(
            [allowed_tags, allowed_ends & may_close[:, :, None], others], axis=2
        )
        return ops.where(gather(allowed_kinds, self._kinds, axis=2), logits, IMPOSSIBLE)
