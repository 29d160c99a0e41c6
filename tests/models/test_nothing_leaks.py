"""What a position must not see changes nothing of its output, bit for bit.

Sentences keep their place and arrays their shape, so every sum has the same terms in the same
order, and what is masked is multiplied by exactly 0. Where shapes change, to 1e-5.
"""

import numpy as np
import pytest

some_variants = pytest.mark.parametrize("variant", ["base", "every option"], indirect=True)


def other_ids(ids):
    """Other ids of the vocabulary of 11, none of them padding."""
    return ids % 10 + 1


@some_variants
def test_a_future_target_token(variant_model, batch):
    before = variant_model(batch).numpy()
    length = batch["target"].shape[1]
    for position in range(length):
        # Padding becomes a token as well.
        target = batch["target"].copy()
        target[:, position] = other_ids(target[:, position])
        after = variant_model({**batch, "target": target}).numpy()
        # Position i predicts token i: it has seen those before it.
        unseen, seen = slice(position + 1), slice(position + 1, position + 2)
        np.testing.assert_array_equal(after[:, unseen], before[:, unseen])
        if position + 1 < length:
            assert np.abs(after - before)[:, seen].max(axis=(1, 2)).min() > 1e-3


@some_variants
def test_the_neighbour_sentences(variant_model, batch):
    before = variant_model(batch).numpy()
    for row in range(3):
        others = np.arange(3)[:, None] != row
        for change in (other_ids, np.zeros_like):
            changed = {side: np.where(others, change(ids), ids) for side, ids in batch.items()}
            after = variant_model(changed).numpy()
            np.testing.assert_array_equal(after[row], before[row])
            assert np.abs(after - before)[others[:, 0]].max() > 1e-3


def test_the_embedding_of_padding(make_model, batch):
    model, real = make_model(), batch["target"] != 0
    before = model(batch).numpy()
    model.embedding.matrix.assign(
        model.embedding.matrix.numpy() + 9.0 * (np.arange(11) == 0)[:, None]
    )
    # But for the logit of padding itself.
    np.testing.assert_array_equal(model(batch).numpy()[real][:, 1:], before[real][:, 1:])


def test_a_radius_is_as_far_as_each_layer_sees(make_model):
    model = make_model(self_attention_radius=2)  # of 2 layers
    source = np.arange(40)[None] % 10 + 1
    before = model.encode(source)[0].numpy()
    for position in (0, 15, 16, 39):
        changed = source.copy()
        changed[0, position] = other_ids(changed[0, position])
        difference = np.abs(model.encode(changed)[0].numpy() - before).max(axis=2)[0]
        seen = np.abs(np.arange(40) - position) <= 4
        assert (difference[~seen] == 0).all()
        assert (difference[seen] > 1e-3).all()
