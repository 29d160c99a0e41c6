"""Words and phrases that no output may contain, as sequences of a vocabulary's pieces."""

import heapq
import re
from collections.abc import Sequence

from t2t_keras.decoding.search.loop import BOUNDARY
from t2t_keras.errors import UserError
from t2t_keras.special_ids import PADDING_ID
from t2t_keras.text.files import normalized
from t2t_keras.text.sentence_pieces import SentencePieceTokenizer
from t2t_keras.text.tokenizer import SPACE, Tokenizer

# A long word can be spelled in very many ways; those of many pieces are never chosen.
_MOST_SPELLINGS = 1000
_MOST_CHARACTERS = 100  # of a phrase
_MOST_SEQUENCES = 100_000  # Each is compared with every hypothesis at every position.
_BYTE = re.compile("<0x([0-9A-F]{2})>")


def forbidden_sequences(
    phrases: Sequence[str], tokenizer: Tokenizer
) -> tuple[tuple[int, ...], ...]:
    """Returns the sequences of ids that no output may contain, as `Constraints` takes them.

    A phrase can be spelled by different pieces, "▁house" or "▁hou" + "se", and stand after a
    space, or, without one, after what `word_boundaries` returns. Of both kinds the 1,000 spellings
    of the fewest pieces are forbidden; no others, and none that spells a letter in bytes which is
    itself a piece. A longer word whose spelling begins with the phrase's pieces is forbidden too.
    Case matters.

    Raises:
      UserError: a phrase is blank, too long, or has a character that the vocabulary cannot spell;
        or all of them can be spelled in too many ways.
    """
    if phrases and not isinstance(tokenizer, SentencePieceTokenizer):
        raise UserError(
            "Phrases can be forbidden with a SentencePiece vocabulary only.",
            code="other_vocabulary_kind",
        )
    pieces = tokenizer.vocabulary() if phrases else {}
    sequences = []
    for phrase in phrases:
        words = SPACE.join(normalized(phrase).split())
        if not words:
            raise UserError("A forbidden phrase is blank: leave the line out.", code="blank")
        if len(words) > _MOST_CHARACTERS:
            raise UserError(
                f"A forbidden phrase must have at most {_MOST_CHARACTERS} characters, got "
                f"{len(words):,}: '{words[:_MOST_CHARACTERS]}...'. Forbid a part of it.",
                code="too_long",
            )
        inside = _spellings(words, pieces)
        if not inside:
            raise UserError(
                f"'{phrase}' cannot be spelled with this vocabulary, so no output contains it: "
                f"leave it out.",
                code="not_spelled",
            )
        sequences += _spellings(SPACE + words, pieces)
        sequences += [(BOUNDARY, *spelling) for spelling in inside]
        if len(sequences) > _MOST_SEQUENCES:
            raise UserError(
                f"The {len(phrases):,} forbidden phrases can be spelled in more than "
                f"{_MOST_SEQUENCES:,} ways. Forbid fewer, or shorter ones.",
                code="too_many_values",
            )
    return tuple(dict.fromkeys(sequences))


def word_boundaries(tokenizer: Tokenizer) -> tuple[int, ...]:
    """Returns the ids after which a word can begin without a space, padding among them.

    These are the pieces that end in no letter or digit. A byte may be the last one of a sign, so
    it is among them unless it is itself a letter or digit.
    """

    def ends_in_a_sign(piece: str) -> bool:
        byte = _BYTE.fullmatch(piece)
        return not (bytes.fromhex(byte[1]) if byte else piece[-1:]).isalnum()

    vocabulary = tokenizer.vocabulary().items()
    return PADDING_ID, *(i for piece, i in vocabulary if i and ends_in_a_sign(piece))


def _spellings(text: str, pieces: dict[str, int]) -> list[tuple[int, ...]]:
    """Returns the ways to spell a text, those of the fewest pieces first."""
    longest = max(map(len, pieces))
    # Of what begins at each character, from the end on.
    spellings = {len(text): [()]}
    for start in reversed(range(len(text))):
        ends = range(start + 1, min(start + longest, len(text)) + 1)
        nexts = {end: [text[start:end]] for end in ends if text[start:end] in pieces}
        # A character that is no piece is spelled in bytes.
        in_bytes = [f"<0x{byte:02X}>" for byte in text[start].encode("utf-8")]
        if start + 1 not in nexts and pieces.keys() >= set(in_bytes):
            nexts[start + 1] = in_bytes
        spelled = (
            (*(pieces[piece] for piece in begun), *rest)
            for end, begun in nexts.items()
            for rest in spellings[end]
        )
        spellings[start] = heapq.nsmallest(_MOST_SPELLINGS, spelled, key=len)
        spellings.pop(start + longest, None)  # No piece reaches it any more.
    return spellings[0]
