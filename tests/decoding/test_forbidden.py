import itertools

import pytest

from t2t_keras.data.tokenizer import Tokenizer
from t2t_keras.decoding.forbidden import forbidden_sequences
from t2t_keras.errors import UserError


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train(["a ab abc b bc c (a) ca cab"] * 9, vocab_size=274)


def test_every_spelling_of_a_word(tokenizer):
    pieces = tokenizer.vocabulary()
    normal = [i for piece, i in pieces.items() if i > 2 and not piece.startswith("<0x")]
    sequences = forbidden_sequences(["abc"], tokenizer)
    found = {ids for ids in sequences if ids[0] and "(" not in tokenizer.pieces(ids)[0]}
    expected = {
        ids
        for length in range(1, 5)
        for ids in itertools.product(normal, repeat=length)
        if "".join(tokenizer.pieces(ids)) == "▁abc"
    }
    assert len(expected) > 3
    assert expected <= found
    # At the start of the output also without the space, and behind a bracket.
    assert {ids[1:] for ids in sequences if ids[0] == 0} == {
        ids
        for length in range(1, 4)
        for ids in itertools.product(normal, repeat=length)
        if "".join(tokenizer.pieces(ids)) == "abc"
    }
    assert any("".join(tokenizer.pieces(ids)).endswith("(abc") for ids in sequences)


def test_phrases_and_characters_that_are_no_pieces(tokenizer):
    sequences = forbidden_sequences(["  a   é "], tokenizer)
    texts = {tokenizer.decode([[i for i in ids if i]])[0] for ids in sequences}
    assert "a é" in texts
    assert forbidden_sequences([], tokenizer) == ()


def test_long_words_have_a_limited_number_of_spellings(tokenizer):
    assert len(forbidden_sequences(["abcab" * 12], tokenizer)) < 5000


@pytest.mark.parametrize(("word", "message"), [(" ", "is blank")])
def test_what_cannot_be_forbidden(tokenizer, word, message):
    with pytest.raises(UserError, match=message):
        forbidden_sequences([word], tokenizer)


def test_what_the_vocabulary_cannot_spell():
    characters = Tokenizer.train(["abc"] * 9, vocab_size=50, kind="char")
    with pytest.raises(UserError, match="'xyz' cannot be spelled"):
        forbidden_sequences(["xyz"], characters)
