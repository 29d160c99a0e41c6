"""Embeddings and vocabularies of other toolkits, in the order of our ids."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence

import numpy as np

from t2t_keras.errors import UserError, brief

# The logit of what is never written: its probability is 0 in float32, and label smoothing, which
# takes the mean of all logits, still works.
NEVER = -100.0


@dataclasses.dataclass(frozen=True)
class IdOrder:
    """Where another toolkit's ids stand here: padding, end, unknown, and the others as they are.

    Attributes:
      pieces: by id there.
      end: id there of the end of sentence.
      unknown: id there of unknown words.
      padding: id there of padding; None = it has none.
      start: whether the row of padding, which starts decoding, is not zeros. It becomes the last.
    """

    pieces: Sequence[str]
    end: int
    unknown: int
    padding: int | None = None
    start: bool = False

    @functools.cached_property
    def _rows(self) -> list[int]:
        special = [self.end, self.unknown]
        others = (i for i in range(len(self.pieces)) if i not in (*special, self.padding))
        return [*special, *others, *[self.padding] * self.start]

    @property
    def our_pieces(self) -> list[str]:
        """The pieces by id here."""
        pieces = ["<pad>", *(self.pieces[i] for i in self._rows)]
        return [*pieces[:-1], "<start>"] if self.start else pieces

    def rows(self, matrix: np.ndarray) -> np.ndarray:
        """Returns rows by id here of rows by id there; that of padding is zeros."""
        return np.concatenate([np.zeros_like(matrix[:1]), matrix[self._rows]])

    def bias(self, bias: np.ndarray) -> np.ndarray:
        """Returns the bias of logits, likewise; padding and the start are never written."""
        found = self.rows(bias)
        found[[0, *[-1] * self.start]] = NEVER
        return found


def pieces_by_id(ids: Mapping[str, int], origin: str) -> list[str]:
    """Returns the pieces of a vocabulary in the order of their ids.

    Raises:
      UserError: the ids are not all numbers from 0 on.
    """
    try:
        pieces = {int(i): piece for piece, i in ids.items()}
        "".join(ids).encode()  # JSON may hold lone surrogates, UTF-8 not.
    except (OverflowError, TypeError, ValueError) as error:
        raise UserError(
            f"{origin}: expected pieces with their ids: {brief(error)}.", code="not_a_vocabulary"
        ) from error
    if missing := set(range(len(ids))) - pieces.keys():
        raise UserError(
            f"{origin}: expected ids from 0 to {len(ids) - 1}, got no {min(missing)}.",
            code="not_a_vocabulary",
        )
    return [pieces[i] for i in range(len(ids))]


def embedding_weights(
    source: np.ndarray,
    target: np.ndarray,
    projection: np.ndarray,
    bias: np.ndarray,
    one_vocabulary: bool,
) -> tuple[str, dict[str, np.ndarray]]:
    """Returns `share_embeddings` and the weights: matrices that are equal are shared.

    Args:
      source: [source_vocab_size, d_model].
      target: [vocab_size, d_model].
      projection: that of the logits, [vocab_size, d_model].
      bias: that of the logits, [vocab_size].
      one_vocabulary: whether source and target have the same ids.
    """
    same_inputs = one_vocabulary and np.array_equal(source, target)
    tied = np.array_equal(projection, target)
    share = {(True, True): "all", (True, False): "input", (False, True): "target"}
    name = "embedding" if same_inputs else "target_embedding"
    found = {f"{name}/table/embeddings": target, f"{name}/bias": bias}
    if not same_inputs:
        found["source_embedding/table/embeddings"] = source
    if not tied:
        found[f"{name}/table/reverse_embeddings"] = projection.T
    return share.get((same_inputs, tied), "none"), found
