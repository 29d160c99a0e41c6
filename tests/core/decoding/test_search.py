"""What the loop carries along, besides the symbols."""

import numpy as np
import tensorflow as tf

from t2t_keras.decoding.beam import BeamSearch
from t2t_keras.decoding.search import Cache, Constraints, Limits, SearchLoop, StepResult

BLOCK_SIZE, VOCAB_SIZE = 4, 7


def run(window, max_lengths, beam_size=2, xla=False):
    """Decodes, and returns what each step saw: [(sentences, slots), ...]; under XLA, once each."""
    random = np.random.default_rng(0)
    seen, sentences = [], len(max_lengths)

    def step(previous, index, position, valid_slots, cache):
        seen.append(tuple(map(int, valid_slots.shape[::2])))
        logits = random.normal(0, 1, [*previous.shape, VOCAB_SIZE]).astype(np.float32)
        return StepResult(tf.constant(logits), cache.recent, tf.zeros([*previous.shape, 0]))

    none = tf.zeros([sentences, 0])
    limits = Limits(tf.constant(max_lengths), tf.cast(none, tf.int32), tf.range(sentences), none)
    recent = tf.zeros([sentences, 1, BLOCK_SIZE * beam_size, 1])
    cache = Cache(sentence=none, past=recent[:, :, :0], recent=recent)
    rule = BeamSearch(beam_size, 0.6, constraints=Constraints(min_length=max(max_lengths)))
    SearchLoop(step, rule, BLOCK_SIZE, window, xla).run(cache, limits)
    return seen


def test_slots_that_no_step_will_see_are_left_behind():
    window, beam_size = 3, 2
    seen = run(window, [30, 30], beam_size)
    assert len(seen) == 30
    most = (window + BLOCK_SIZE) * beam_size
    assert max(slots for _, slots in seen) <= most
    assert max(slots for _, slots in run(0, [30, 30], beam_size)) > most


def test_slots_that_no_hypothesis_goes_back_to_are_left_behind():
    # Each position has two, of which most are soon nobody's past.
    assert max(slots for _, slots in run(0, [60])) < 2 * 60


def test_sentences_that_are_done_are_left_behind():
    sentences = [sentences for sentences, _ in run(0, [3, 30, 9])]
    assert sentences == [3] * 4 + [2] * 8 + [1] * 18


def test_under_xla_shapes_are_few():
    """Sentences leave when a quarter goes on; the 128 slots of the past are doubled when full."""
    past, recent = 128, BLOCK_SIZE * 2
    expected = [(8, past + recent), (2, past + recent), (2, 2 * past + recent)]
    assert run(0, [3] * 6 + [30, 160], xla=True) == expected


def test_blocks_are_compiled_with_xla_alone(monkeypatch):
    function, options_seen = tf.function, []

    def recorded(block, **options):
        options_seen.append(options)
        return function(block, **options)

    monkeypatch.setattr(tf, "function", recorded)
    for xla in (False, True):
        run(0, [3], xla=xla)
    assert [options["jit_compile"] for options in options_seen] == [True]
