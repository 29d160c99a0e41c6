import itertools
import re

import numpy as np
import pytest
import tensorflow as tf
from refusals import refused

from t2t_keras.decoding.beam import forbidden_sequences, word_boundaries
from t2t_keras.decoding.search import (
    BOUNDARY,
    Constraints,
)
from t2t_keras.text.tokenizer import SentencePieceTokenizer


@pytest.fixture(scope="module")
def tokenizer():
    return SentencePieceTokenizer.train(["a ab abc b bc c (a) ca cab"] * 9, vocab_size=274)


def test_every_spelling_of_a_word(tokenizer):
    pieces = tokenizer.vocabulary()
    normal = [i for piece, i in pieces.items() if i > 2 and not piece.startswith("<0x")]
    sequences = forbidden_sequences(["abc"], tokenizer)
    for text, found in (
        ("▁abc", {ids for ids in sequences if ids[0] != BOUNDARY}),
        ("abc", {ids[1:] for ids in sequences if ids[0] == BOUNDARY}),
    ):
        expected = {
            ids
            for length in range(1, 5)
            for ids in itertools.product(normal, repeat=length)
            if "".join(tokenizer.pieces(ids)) == text
        }
        assert len(expected) > 1
        assert found == expected


def test_no_output_holds_the_word_behind_whatever_sign(tokenizer):
    pieces = tokenizer.vocabulary()
    chosen = [pieces[piece] for piece in ("▁", "▁(", "(", "<0x2D>", "▁ab", "a", "b", "c", "ab")]
    outputs = np.array(list(itertools.product(chosen, repeat=4)), np.int32)
    constraints = Constraints(
        forbidden=forbidden_sequences(["abc"], tokenizer), boundaries=word_boundaries(tokenizer)
    )
    possible = np.full(len(outputs), True)
    logits = tf.zeros([len(outputs), 1, tokenizer.vocab_size])
    for index, chosen_last in enumerate(outputs.T):
        allowed = constraints.without_forbidden(logits, outputs[:, None], tf.constant(index))
        possible &= np.isfinite(allowed.numpy()[np.arange(len(outputs)), 0, chosen_last])
    texts = tokenizer.decode(outputs)
    holds = np.array([bool(re.search(r"(?<![a-z])abc(?![a-z])", text)) for text in texts])
    assert not (holds & possible).any()
    # Longer words are forbidden as well, but nothing else.
    begins = np.array([bool(re.search(r"(?<![a-z])abc", text)) for text in texts])
    assert possible[~begins].all()
    assert holds.sum() > 100


def test_a_word_can_begin_behind_what_ends_in_no_letter_or_digit(tokenizer):
    boundaries = set(tokenizer.pieces(word_boundaries(tokenizer)))
    assert {"<pad>", "▁", "(", "▁(", "<0x2D>", "<0x9E>"} <= boundaries
    assert not {"a", "▁ab", "<0x41>", "<0x30>"} & boundaries


def test_phrases_and_characters_that_are_no_pieces(tokenizer):
    sequences = forbidden_sequences(["  a   é "], tokenizer)
    texts = {tokenizer.decode([[i for i in ids if i != BOUNDARY]])[0] for ids in sequences}
    assert "a é" in texts
    assert forbidden_sequences(["a e\u0301"], tokenizer) == sequences
    assert forbidden_sequences([], tokenizer) == ()


def test_long_words_have_a_limited_number_of_spellings(tokenizer):
    assert len(forbidden_sequences(["abcab" * 20], tokenizer)) == 2 * 1000


def test_what_cannot_be_forbidden(tokenizer):
    characters = SentencePieceTokenizer.train(["abc"] * 9, vocab_size=50, kind="char")
    many = [f"{'abc' * 12} {number}" for number in range(60)]
    for vocabulary, words, code, named in (
        (tokenizer, [" "], "blank", []),
        (characters, ["xyz"], "not_spelled", ["xyz"]),
        (tokenizer, ["ab" * 50 + "c"], "too_long", ["100", "101"]),
        (tokenizer, many, "too_many_values", ["60", "100,000"]),
    ):
        with refused(code, *named):
            forbidden_sequences(words, vocabulary)
