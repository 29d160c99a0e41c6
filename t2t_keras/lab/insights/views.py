"""The three attentions of a sentence: which words read which."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from t2t_keras.decoding.translation import AttentionWeights
from t2t_keras.lab.pages import ON_LIGHT
from t2t_keras.text.tokenizer import SPACE

_SHOWN_SPACE = "\N{OPEN BOX}"  # for a space that stands alone

START = ""
END = "</s>"


@dataclasses.dataclass(frozen=True)
class ShownPiece:
    """A piece as it is shown."""

    text: str  # Without the sign of the space before it.
    joined: bool  # Whether it continues the word of the piece before it.
    special: bool  # Whether it stands for no text: the start, or the end of sentence.


def shown_pieces(pieces: Sequence[str]) -> list[ShownPiece]:
    """Returns how the pieces of one sentence, as the vocabulary spells them, are shown.

    START is the start that a decoder reads where it is the first, END the end where it is the last.
    """
    shown: list[ShownPiece] = []
    for number, piece in enumerate(pieces):
        # In the middle, END is what the vocabulary makes of a text like it, hence text.
        if (number, piece) in ((0, START), (len(pieces) - 1, END)):
            shown.append(ShownPiece(piece or "start", joined=False, special=True))
            continue
        begins_word = piece.startswith(SPACE) or not shown or shown[-1].special
        text = piece.removeprefix(SPACE) if piece != SPACE else piece
        shown.append(ShownPiece(text.replace(SPACE, _SHOWN_SPACE), not begins_word, special=False))
    return shown


# Lengths of lines and gaps; each is used for as many heads as there are colours.
DASHES = ((), (6, 3), (1.5, 2.5), (8, 2.5, 1.5, 2.5))


def head_color(head: int) -> str:
    """Returns the colour of a head on white, "#rrggbb"."""
    return ON_LIGHT[head % len(ON_LIGHT)]


def head_dashes(head: int) -> tuple[float, ...]:
    """Returns the lengths of the dashes and gaps of a head's lines; none for a whole line."""
    return DASHES[head // len(ON_LIGHT) % len(DASHES)]


KINDS = ("encoder", "decoder", "cross")


@dataclasses.dataclass(frozen=True)
class AttentionView:
    """One kind of attention, with the words at both ends of its weights."""

    queries: list[ShownPiece]  # The words that read; in the decoder, each where it is predicted.
    # The words that are read. In the decoder's self-attention these are its inputs: the start and
    # then the words before the one that is predicted.
    keys: list[ShownPiece]
    weights: np.ndarray  # float32 [layers, heads, queries, keys]


def attention_view(attention: AttentionWeights, kind: str) -> AttentionView:
    """Returns "encoder" or "decoder" self-attention, or "cross", of the decoder to the source."""
    source, target = shown_pieces(attention.source), shown_pieces(attention.target)
    if kind == "encoder":
        return AttentionView(source, source, attention.encoder)
    if kind == "cross":
        return AttentionView(target, source, attention.cross)
    inputs = shown_pieces((START, *attention.target[:-1]))
    return AttentionView(target, inputs, attention.decoder)
