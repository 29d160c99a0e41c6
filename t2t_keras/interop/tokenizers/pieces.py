"""SentencePiece vocabularies of other toolkits, which look up what a model divides off."""

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import sentencepiece

from t2t_keras.errors import UserError
from t2t_keras.special_ids import EOS_ID, UNKNOWN_ID
from t2t_keras.text.tokenizer import SentencePieceTokenizer, parsed_model

if TYPE_CHECKING:
    from t2t_keras.text.in_graph import GraphTokenizer

# Pieces after this one have no id, and characters that are no piece may have one.
BEYOND = "<beyond>"


def dividing_model(model_bytes: bytes) -> bytes:
    """Returns a model with `BEYOND` without the pieces that it only has for their ids."""
    model = parsed_model(model_bytes)
    dividing = [piece for piece in model.pieces if piece.type != piece.UNUSED]
    del model.pieces[:]
    model.pieces.extend(dividing)
    return model.SerializeToString()


class LookedUpPieces(SentencePieceTokenizer):
    """A `.pieces` file: a SentencePiece model whose pieces have the ids of a list.

    The pieces before `BEYOND` are the list, in the order of their ids. All that are used divide
    text; what they divide off and the list does not have is unknown.

    Bytes that are no such file are a `UserError`, which names their `origin`.
    """

    suffix: ClassVar[str] = ".pieces"

    def _read(self, origin: str) -> None:
        super()._read(origin)
        self._vocab_size = self._processor.piece_to_id(BEYOND)
        if self._vocab_size == UNKNOWN_ID:
            raise UserError(
                f"{origin}: expected a model with the piece {BEYOND}. Call one without it .model.",
                code="not_a_vocabulary",
            )

    @property
    def vocab_size(self) -> int:
        """See `Tokenizer`."""
        return self._vocab_size

    def encode(self, lines: Sequence[str]) -> list[np.ndarray]:
        """See `Tokenizer`."""
        known = self._ids_of_pieces
        return [
            np.array([*(known.get(piece, UNKNOWN_ID) for piece in pieces), EOS_ID], np.int32)
            for pieces in self._dividing.encode(list(lines), out_type=str, num_threads=1)
        ]

    @functools.cached_property
    def dividing_model(self) -> bytes:
        """See `SentencePieceTokenizer`."""
        return dividing_model(self.model_bytes)

    @functools.cached_property
    def _dividing(self) -> sentencepiece.SentencePieceProcessor:
        return sentencepiece.SentencePieceProcessor(model_proto=self.dividing_model)

    def graph_tokenizer(self) -> "GraphTokenizer":
        """See `Tokenizer`."""
        from t2t_keras.interop.tokenizers.in_graph import GraphLookedUpPieces

        return GraphLookedUpPieces(self.model_bytes, self.dividing_model, self._ids_of_pieces)
