"""Decoding one position after the other, with kept keys and values, is the same as all at once."""

import numpy as np
import pytest
import tensorflow as tf

# The first position has one key to attend to; Keras takes that for a mistake.
pytestmark = pytest.mark.filterwarnings("ignore:You are using a softmax over axis -1:UserWarning")

# Float32, and what bfloat16 rounds to with logits of a few units.
TOLERANCES = [("float32", 1e-5), ("mixed_bfloat16", 0.2)]


def steps(model, source, target, step=None):
    """Returns the logits of every position [batch, length, V] and the last cache."""
    cache = model.start_cache(*model.encode(source))
    logits = []
    for index in range(target.shape[1]):
        # At index 0 the token before is ignored, whatever it is.
        previous = target[:, index - 1] if index else np.full(len(target), 7, np.int32)
        each, cache = (step or model.decode_step)(previous, index, cache)
        logits.append(each.numpy())
    return np.stack(logits, axis=1), cache


@pytest.mark.parametrize(("policy", "tolerance"), TOLERANCES)
def test_steps_give_the_logits_of_known_targets(make_model, variant, batch, policy, tolerance):
    model = make_model(dtype=policy, **variant)
    logits, _ = steps(model, batch["source"], batch["target"])
    assert logits.dtype == np.float32
    real = batch["target"] != 0
    expected = model(batch).numpy()
    np.testing.assert_allclose(logits[real], expected[real], rtol=0, atol=tolerance)


@pytest.mark.parametrize("variant", ["base", "every option"], indirect=True)
def test_steps_in_a_graph(variant_model, batch):
    # As in a loop over positions: the index and the lengths are known only when it runs.
    def unknown_lengths(cache):
        def spec(tensor, axes):
            shape = [None if axis in axes else size for axis, size in enumerate(tensor.shape)]
            return tf.TensorSpec(shape, tensor.dtype)

        return {
            "self": tf.nest.map_structure(lambda t: spec(t, (0, 1)), cache["self"]),
            "memory": tf.nest.map_structure(lambda t: spec(t, (0, 1)), cache["memory"]),
            "memory_mask": spec(cache["memory_mask"], (0, 3)),
        }

    cache = variant_model.start_cache(*variant_model.encode(batch["source"]))
    compiled = tf.function(
        variant_model.decode_step,
        input_signature=[
            tf.TensorSpec([None], tf.int32),
            tf.TensorSpec([], tf.int32),
            unknown_lengths(cache),
        ],
    )
    logits, _ = steps(
        variant_model,
        batch["source"],
        batch["target"],
        lambda previous, index, cache: compiled(previous, tf.constant(index), cache),
    )
    real = batch["target"] != 0
    np.testing.assert_allclose(logits[real], variant_model(batch).numpy()[real], rtol=0, atol=1e-5)


def test_what_the_cache_holds(model, batch):
    cache = model.start_cache(*model.encode(batch["source"]))
    assert [past["key"].shape for past in cache["self"]] == [(3, 0, 3, 5)] * 2
    assert [past["value"].shape for past in cache["self"]] == [(3, 0, 3, 4)] * 2
    _, last = steps(model, batch["source"], batch["target"][:, :4])
    assert [past["key"].shape for past in last["self"]] == [(3, 4, 3, 5)] * 2
    assert [past["value"].shape for past in last["self"]] == [(3, 4, 3, 4)] * 2
    for kept, first in zip(last["memory"], cache["memory"], strict=True):
        assert (kept["key"].shape, kept["value"].shape) == ((3, 5, 3, 5), (3, 5, 3, 4))
        np.testing.assert_array_equal(kept["key"], first["key"])


def test_what_the_cache_of_restricted_attention_holds(make_model, batch):
    # A position sees itself and so many before it as the radius is.
    model = make_model(self_attention_radius=2)
    _, last = steps(model, batch["source"], batch["target"])
    assert [past["key"].shape for past in last["self"]] == [(3, 3, 3, 5)] * 2
    assert [past["value"].shape for past in last["self"]] == [(3, 3, 3, 4)] * 2


def test_rows_of_the_cache_can_be_reordered(model, batch):
    # Beam search does so: a hypothesis takes over the past of another of the same sentence.
    source = np.repeat(batch["source"][:1], 3, axis=0)
    _, cache = steps(model, source, batch["target"][:, :3])
    order = [2, 0, 0]
    moved = {**cache, "self": tf.nest.map_structure(lambda t: tf.gather(t, order), cache["self"])}
    previous = batch["target"][:, 2]
    straight, _ = model.decode_step(previous, 3, cache)
    reordered, _ = model.decode_step(previous[order], 3, moved)
    np.testing.assert_allclose(reordered.numpy(), straight.numpy()[order], atol=1e-5)
