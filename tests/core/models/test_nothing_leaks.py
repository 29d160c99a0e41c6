"""What a position must not see changes nothing of its output, bit for bit.

Sentences keep their place and arrays their shape, so every sum has the same terms in the same
order, and what is masked is multiplied by exactly 0.
"""

import numpy as np
import pytest

pytestmark = pytest.mark.parametrize("variant_model", ["base", "every option"], indirect=True)


def other_ids(ids):
    """Other ids of the vocabulary of 11, none of them padding."""
    return ids % 10 + 1


def test_a_future_target_token(variant_model, batch):
    before = variant_model(batch).numpy()
    for position in range(batch["target"].shape[1]):
        # Padding becomes a token as well.
        target = batch["target"].copy()
        target[:, position] = other_ids(target[:, position])
        difference = np.abs(variant_model({**batch, "target": target}).numpy() - before)
        # Position i predicts token i: it has seen those before it.
        assert (difference[:, : position + 1] == 0).all()
        assert (difference[:, position + 1 : position + 2].max(axis=2) > 1e-3).all()


def test_the_neighbour_sentences(variant_model, batch):
    before = variant_model(batch).numpy()
    for row in range(3):
        other_rows = np.arange(3)[:, None] != row
        for change in (other_ids, np.zeros_like):
            changed = {side: np.where(other_rows, change(ids), ids) for side, ids in batch.items()}
            after = variant_model(changed).numpy()
            np.testing.assert_array_equal(after[row], before[row])
            assert np.abs(after - before)[other_rows[:, 0]].max() > 1e-3
