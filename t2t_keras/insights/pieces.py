"""Pieces of a SentencePiece vocabulary as a reader sees them."""

import dataclasses
from collections.abc import Sequence

from t2t_keras.data.word_ids import SPACE

# Shown for a space that stands alone.
_SHOWN_SPACE = "\N{OPEN BOX}"

START = ""
END = "</s>"


@dataclasses.dataclass(frozen=True)
class ShownPiece:
    """A piece as it is shown.

    Attributes:
      text: without the sign of the space before it.
      joined: whether it continues the word of the piece before it.
      special: whether it stands for no text: the start, or the end of sentence.
    """

    text: str
    joined: bool
    special: bool


def shown_pieces(pieces: Sequence[str]) -> list[ShownPiece]:
    """Returns how the pieces of one sentence are shown.

    Args:
      pieces: as the vocabulary spells them, with U+2581 for a space. An empty first one is the
        start that a decoder reads; an END is the end of sentence where it is the last.
    """
    shown: list[ShownPiece] = []
    for number, piece in enumerate(pieces):
        if number == 0 and piece == START:
            shown.append(ShownPiece("start", joined=False, special=True))
            continue
        # In the middle it is what the vocabulary makes of a text like it, hence text.
        if number == len(pieces) - 1 and piece == END:
            shown.append(ShownPiece(END, joined=False, special=True))
            continue
        begins_word = piece.startswith(SPACE) or not shown or shown[-1].special
        text = piece.removeprefix(SPACE) if piece != SPACE else piece
        shown.append(ShownPiece(text.replace(SPACE, _SHOWN_SPACE), not begins_word, special=False))
    return shown
