"""A "model" that is a table: random logits of the next symbol for every prefix.

Its step learns the prefix only from the slots of its cache that it is told to go back to, so a
wrong one of these gives wrong scores.
"""

import math

import numpy as np
import tensorflow as tf

from t2t_keras.decoding.constraints import Limits
from t2t_keras.decoding.loop import Cache, Scored, decode

PADDING = 0


def prefix_code(prefix, vocab_size):
    """Symbols are >= 1, so the digits of the number tell prefixes of all lengths apart."""
    code = 0
    for symbol in prefix:
        code = code * vocab_size + int(symbol)
    return code


def log_softmax(logits):
    logits = np.asarray(logits, np.float64)
    highest = logits.max()
    return logits - highest - math.log(np.exp(logits - highest).sum())


def following(table, prefix):
    """The log-probabilities of all symbols after `prefix`, in float64."""
    return log_softmax(table[prefix_code(prefix, table.shape[-1])])


def random_logits(seed, sentences, vocab_size, longest):
    """[sentences, prefixes, vocab_size]: logits after each prefix, see `prefix_code`."""
    generator = np.random.default_rng(seed)
    logits = generator.normal(0.0, 2.0, [sentences, vocab_size**longest, vocab_size])
    return logits.astype(np.float32)


def written(kept, slots, new):
    """Writes new [B, 1, K] at slots [K] of kept [B, 1, slots]."""
    here = tf.range(tf.shape(kept)[2])[:, None] == slots
    there = tf.reduce_sum(tf.where(here, new[:, :, None], 0), axis=3)
    return tf.where(tf.reduce_any(here, axis=1), there, kept)


class Search:
    """Decodes a table of logits by a rule, compiled once for all sentences.

    Its attention is `attention(previous)`, [symbols, source length], where that is given.
    """

    def __init__(self, rule, vocab_size, room=3, xla=False, attention=None):
        self.rule, self.room, self.xla = rule, room, xla
        self.attention = np.zeros([vocab_size, 0]) if attention is None else attention
        self.source_length = self.attention.shape[1]
        self.search = tf.function(
            self._search,
            input_signature=[
                tf.TensorSpec([None, None, vocab_size], tf.float32),
                tf.TensorSpec([None], tf.int32),
                tf.TensorSpec([None, None], tf.int32),
                tf.TensorSpec([None], tf.int32),
            ],
            autograph=False,
        )

    def _attention(self, previous, index):
        """Rows of the table by the symbol before; none before the first."""
        looked = tf.gather(tf.constant(self.attention, tf.float32), previous)
        return tf.where(index > 0, looked, 0.0)

    def _search(self, table, *limits):
        vocab_size, places = table.shape[-1], self.rule.places

        def step(previous, index, place, legal, cache):
            slots = place * places + tf.range(places)
            new = {
                "symbol": previous[:, None],
                "position": tf.fill(tf.shape(previous), index)[:, None],
            }
            [recent] = cache.recent["layers"]
            recent = {name: written(recent[name], slots, new[name]) for name in new}
            kept = {
                name: tf.concat([cache.past["layers"][0][name], recent[name]], axis=2)
                for name in new
            }
            # The first symbol before is none; later digits are smaller.
            digits = tf.where(
                legal & (kept["position"] > 0),
                kept["symbol"] * vocab_size ** tf.maximum(index - kept["position"], 0),
                0,
            )
            code = tf.reduce_sum(digits, axis=2)  # [B, K]
            logits = tf.gather(cache.sentence["table"], code, batch_dims=1)
            return Scored(logits, {"layers": [recent]}, self._attention(previous, index))

        def slots(positions):
            shape = [tf.shape(table)[0], 1, positions * places]
            # What a slot holds before it is written must not matter.
            return {"layers": [{name: tf.fill(shape, 77) for name in ("symbol", "position")}]}

        cache = Cache(sentence={"table": table}, past=slots(0), recent=slots(self.room))
        covered = tf.zeros([tf.shape(table)[0], self.source_length])
        return decode(
            step, cache, Limits(*limits, covered), self.rule, room=self.room, xla=self.xla
        )

    def ids_and_scores(self, table, max_lengths, prefixes=None, numbers=None):
        if prefixes is None:
            prefixes = np.zeros([len(table), 0])
        if numbers is None:
            numbers = range(len(table))
        integers = (np.array(each, np.int32) for each in (max_lengths, prefixes, numbers))
        return self.search(table, *integers)

    def __call__(self, *sentences):
        """Returns, for each sentence, [(symbols with the end, score), ...]."""
        ids, scores = self.ids_and_scores(*sentences)
        return [
            [
                (tuple(row[row != PADDING].tolist()), float(score))
                for row, score in zip(*found, strict=True)
            ]
            for found in zip(ids.numpy(), scores.numpy(), strict=True)
        ]
