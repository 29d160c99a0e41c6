"""Words that no output may hold, as the sequences of pieces that spell them."""

import heapq
import re
from collections.abc import Iterator, Sequence

from t2t_keras.data.tokenizer import PADDING_ID, Tokenizer
from t2t_keras.data.word_ids import SPACE
from t2t_keras.decoding.constraints import BOUNDARY
from t2t_keras.errors import UserError

# A long word can be spelled in very many ways; those of many pieces are never chosen.
_MOST_SPELLINGS = 1000
_BYTE = re.compile("<0x([0-9A-F]{2})>")


def forbidden_sequences(
    phrases: Sequence[str], tokenizer: Tokenizer
) -> tuple[tuple[int, ...], ...]:
    """Returns the sequences of ids that no output may hold, as `Constraints` takes them.

    A phrase can be spelled by different pieces, "▁house" or "▁hou" + "se", and stand behind a
    space, or, without one, at the start of an output and behind a sign such as "(" (see
    `word_boundaries`). Of each of the two kinds, the 1,000 spellings of the fewest pieces are
    forbidden; no others, and none that spells a letter in bytes which is itself a piece. A longer
    word whose spelling begins with the phrase's pieces is forbidden as well.

    Args:
      phrases: words or phrases; case matters.
      tokenizer: the vocabulary.

    Raises:
      UserError: a phrase is blank, or has a character that the vocabulary cannot spell.
    """
    if not phrases:
        return ()
    pieces = tokenizer.vocabulary()
    sequences = []
    for phrase in phrases:
        words = SPACE.join(phrase.split())
        if not words:
            raise UserError("A forbidden word is blank: leave the line out.")
        inside = _spellings(words, pieces)
        if not inside:
            raise UserError(
                f"'{phrase}' cannot be spelled with this vocabulary, so it cannot come up: leave "
                f"it out."
            )
        sequences += _spellings(SPACE + words, pieces)
        sequences += [(BOUNDARY, *spelling) for spelling in inside]
    return tuple(dict.fromkeys(sequences))


def word_boundaries(tokenizer: Tokenizer) -> tuple[int, ...]:
    """Returns the ids behind which a word can begin without a space, padding among them.

    These are the pieces that end in no letter or digit. A byte may be the last one of a sign, so
    it is among them unless it is itself a letter or digit.
    """
    return (
        PADDING_ID,
        *(i for piece, i in tokenizer.vocabulary().items() if i and _ends_in_a_sign(piece)),
    )


def _ends_in_a_sign(piece: str) -> bool:
    byte = _BYTE.fullmatch(piece)
    return not (bytes.fromhex(byte[1]).isalnum() if byte else piece[-1:].isalnum())


def _spellings(text: str, pieces: dict[str, int]) -> list[tuple[int, ...]]:
    """Returns the ways to spell a text, those of the fewest pieces first."""
    longest = max(map(len, pieces))
    following = [list(_next_pieces(text, start, longest, pieces)) for start in range(len(text))]
    # The fewest pieces that spell the text from each character on.
    fewest = [*[float("inf")] * len(text), 0]
    for start in reversed(range(len(text))):
        lengths = [len(ids) + fewest[start + len(piece)] for piece, ids in following[start]]
        fewest[start] = min(lengths, default=fewest[start])
    # (pieces of the shortest spelling that begins so, characters left, ids so far)
    begun = [(fewest[0], len(text), ())]
    found = []
    while begun and len(found) < _MOST_SPELLINGS:
        _, left, ids = heapq.heappop(begun)
        if not left:
            found.append(ids)
            continue
        for piece, added in following[len(text) - left]:
            rest = fewest[len(text) - left + len(piece)]
            if rest < float("inf"):
                spelled = (*ids, *added)
                heapq.heappush(begun, (len(spelled) + rest, left - len(piece), spelled))
    return found


def _next_pieces(
    text: str, start: int, longest: int, pieces: dict[str, int]
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yields the pieces that the text goes on with at `start`, with their ids."""
    for end in range(start + 1, min(start + longest, len(text)) + 1):
        if text[start:end] in pieces:
            yield text[start:end], (pieces[text[start:end]],)
    # A character that is no piece is spelled in bytes.
    spelled = [f"<0x{byte:02X}>" for byte in text[start].encode("utf-8")]
    if text[start] not in pieces and all(byte in pieces for byte in spelled):
        yield text[start], tuple(pieces[byte] for byte in spelled)
