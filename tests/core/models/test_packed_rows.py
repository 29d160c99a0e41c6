"""Rows that hold several pairs: each pair is computed as the reference computes it alone."""

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.layers.base import PackedLayout
from t2t_keras.models.transformer import Transformer
from t2t_keras.training.optimizer import token_sums

LENGTH = 14
# The pairs of each row.
ROWS = [[0, 1, 2], [2, 0]]


@pytest.fixture(scope="module")
def packed(pairs):
    """Two rows of three and of two pairs."""
    batch = {}
    for side, name in enumerate(("source", "target")):
        ids, sentences = np.zeros((2, len(ROWS), LENGTH), np.int32)
        for row, members in enumerate(ROWS):
            tokens = np.concatenate([pairs[member][side] for member in members])
            numbers = [[n] * len(pairs[member][side]) for n, member in enumerate(members, 1)]
            ids[row, : len(tokens)] = tokens
            sentences[row, : len(tokens)] = np.concatenate(numbers)
        batch |= {name: ids, f"{name}_sentences": sentences}
    return batch


def pair_numbers(packed):
    """Yields the row, the number in the row, and the number in the batch of each pair."""
    for row, members in enumerate(ROWS):
        for number, member in enumerate(members, 1):
            yield row, number, member, packed["target_sentences"][row] == number


def test_logits_are_those_of_each_pair_alone(variant_model, make_reference, packed, pairs):
    reference = make_reference(variant_model)
    assert variant_model.packs_rows
    logits = variant_model(packed).numpy()
    assert logits.shape == (2, LENGTH, 11)
    for row, _, member, positions in pair_numbers(packed):
        expected = reference.logits(*pairs[member])
        np.testing.assert_allclose(logits[row, positions], expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("recompute", [False, True])
def test_gradients_are_those_of_the_unpacked_pairs(
    make_model, every_option, packed, pairs, recompute
):
    model = make_model(**every_option, recompute=recompute, dropout=0.0)
    weights = [weight.value for weight in model.trainable_variables]

    def gradients(batches):
        with tf.GradientTape() as tape:
            losses = [
                token_sums(model(batch, training=True), batch["target"], 0.1)["loss"]
                for batch in batches
            ]
            loss = tf.add_n(losses)
        return [loss, *map(tf.convert_to_tensor, tape.gradient(loss, weights))]

    alone = [
        {name: ids[None] for name, ids in zip(("source", "target"), pairs[member], strict=True)}
        for _, _, member, _ in pair_numbers(packed)
    ]
    for actual, expected in zip(gradients([packed]), gradients(alone), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("variant_model", ["base", "every option", "rotary"], indirect=True)
@pytest.mark.parametrize("side", ["source", "target"])
def test_a_neighbour_in_the_row_changes_nothing(variant_model, packed, side):
    before = variant_model(packed).numpy()
    for row, number, _, positions in pair_numbers(packed):
        of_pair = np.zeros((2, LENGTH), bool)
        of_pair[row] = packed[f"{side}_sentences"][row] == number
        changed = np.where(of_pair, packed[side] % 10 + 1, packed[side])
        after = variant_model({**packed, side: changed}).numpy()
        own = np.zeros((2, LENGTH), bool)
        own[row] = positions
        tokens = packed["target"] != 0
        np.testing.assert_array_equal(after[tokens & ~own], before[tokens & ~own])
        # A target of one token is its own last.
        if positions.sum() > 1 or side == "source":
            assert np.abs(after[own] - before[own]).max() > 1e-3


def test_padding_at_the_end_changes_nothing(model, packed):
    longer = {name: np.pad(ids, ((0, 1), (0, 5))) for name, ids in packed.items()}
    tokens = packed["target"] != 0
    actual = model(longer).numpy()
    assert np.isfinite(actual).all()
    np.testing.assert_allclose(
        actual[:2, :LENGTH][tokens], model(packed).numpy()[tokens], atol=1e-6
    )


def test_positions_and_the_shift_begin_anew_in_each_sentence():
    layout = PackedLayout(np.int32([[1, 1, 1, 2, 3, 3, 0, 0]]))
    assert layout.positions().numpy().tolist() == [[0, 1, 2, 0, 0, 1, 0, 1]]
    starts = layout.starts().numpy()[0].nonzero()[0]
    assert starts.tolist() == [0, 3, 4, 6]
    shifted = layout.shift_right(np.int32([[5, 6, 7, 8, 9, 4, 0, 0]]), 2).numpy()
    assert shifted.tolist() == [[2, 5, 6, 2, 2, 9, 2, 0]]
    states = np.arange(1.0, 17.0, dtype=np.float32).reshape(1, 8, 2)
    expected = [0, 1, 3, 0, 0, 9, 0, 13]
    assert layout.shift_right(states).numpy()[0, :, 0].tolist() == expected


class OwnCall(Transformer):
    """Reads its rows as sentences."""

    def call(self, inputs, packed=False, training=None):
        return super().call({name: inputs[name] for name in ("source", "target")}, packed, training)


def test_a_model_that_might_not_know_packed_rows_says_so(make_model):
    assert make_model().packs_rows
    model = OwnCall(11, num_layers=1, d_model=8, d_ff=8, num_heads=2)
    assert not model.packs_rows
