"""Words that no output may hold, as the sequences of pieces that spell them."""

import heapq
from collections.abc import Iterator, Sequence

from t2t_keras.data.tokenizer import PADDING_ID, Tokenizer
from t2t_keras.data.word_ids import SPACE
from t2t_keras.errors import UserError

# A long word can be spelled in very many ways; those of many pieces are never chosen.
_MOST_SPELLINGS = 1000


def forbidden_sequences(
    phrases: Sequence[str], tokenizer: Tokenizer
) -> tuple[tuple[int, ...], ...]:
    """Returns the sequences of ids that no output may hold.

    A phrase can be spelled by different pieces, "▁house" or "▁hou" + "se", and stand behind a
    space or a sign such as "(". A longer word whose spelling begins with the phrase's pieces is
    forbidden as well.

    Args:
      phrases: words or phrases; case matters.
      tokenizer: the vocabulary.

    Raises:
      UserError: a phrase is blank, or has a character that the vocabulary cannot spell.
    """
    if not phrases:
        return ()
    pieces = tokenizer.vocabulary()
    signs = [i for piece, i in pieces.items() if not any(map(str.isalnum, piece.strip(SPACE)))]
    sequences = []
    for phrase in phrases:
        words = SPACE.join(phrase.split())
        if not words:
            raise UserError("A forbidden word is blank: leave the line out.")
        inside = _spellings(words, pieces)
        sequences += _spellings(SPACE + words, pieces)
        # At the start of an output, before which stands padding; and behind a sign, where the
        # shortest spelling is enough.
        sequences += [(PADDING_ID, *spelling) for spelling in inside]
        sequences += [(sign, *spelling) for spelling in inside[:1] for sign in signs]
        if not inside:
            raise UserError(
                f"'{phrase}' cannot be spelled with this vocabulary, so it cannot come up: leave "
                f"it out."
            )
    return tuple(dict.fromkeys(sequences))


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
