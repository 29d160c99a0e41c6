"""A "model" that is a table: random logits of the next symbol for every prefix.

Its step knows a prefix only from the slots of its cache that are valid, so a wrong one of these
gives wrong scores.
"""

import dataclasses

import numpy as np
import tensorflow as tf

from t2t_keras.decoding.search.constraints import Limits
from t2t_keras.decoding.search.loop import Cache, Scored, SearchLoop


def prefix_code(prefix, vocab_size):
    """Symbols are >= 1, so the digits of the number tell prefixes of all lengths apart."""
    code = 0
    for symbol in prefix:
        code = code * vocab_size + int(symbol)
    return code


def following(table, prefix):
    """The log-probabilities of all symbols after `prefix`, in float64."""
    logits = np.asarray(table[prefix_code(prefix, table.shape[-1])], np.float64)
    logits = logits - logits.max()
    return logits - np.log(np.exp(logits).sum())


def random_logits(seed, sentences, vocab_size, longest):
    """[sentences, prefixes, vocab_size]: logits after each prefix, see `prefix_code`."""
    generator = np.random.default_rng(seed)
    logits = generator.normal(0.0, 2.0, [sentences, vocab_size**longest, vocab_size])
    return logits.astype(np.float32)


def written(kept, slots, new):
    """Writes new [B, 1, K] at slots [K] of kept [B, 1, slots]."""
    match = tf.range(tf.shape(kept)[2])[:, None] == slots
    values = tf.reduce_sum(tf.where(match, new[:, :, None], 0), axis=3)
    return tf.where(tf.reduce_any(match, axis=1), values, kept)


class Search:
    """Decodes a table of logits by a rule, compiled once for all sentences and alphas.

    Its attention is `attention(previous)`, [symbols, source length], where that is given.
    """

    def __init__(self, rule, vocab_size, xla=False, attention=None):
        self.rule, self.block_size, self.xla = rule, 3, xla
        self.attention = np.zeros([vocab_size, 0]) if attention is None else attention
        integers = [tf.TensorSpec([None] * rank, tf.int32) for rank in (1, 2, 1)]
        floats = [tf.TensorSpec(shape, tf.float32) for shape in ([None, None, vocab_size], [])]
        self.search = tf.function(
            self._search, input_signature=[*floats, *integers], autograph=False
        )

    def _search(self, table, alpha, *limits):
        vocab_size, beam_size = table.shape[-1], self.rule.beam_size

        def step(previous, index, position, valid_slots, cache):
            slots = position * beam_size + tf.range(beam_size)
            new = {"symbol": previous, "position": tf.fill(tf.shape(previous), index)}
            recent = {name: written(cache.recent[name], slots, new[name][:, None]) for name in new}
            kept = {name: tf.concat([cache.past[name], recent[name]], axis=2) for name in new}
            # The first symbol before is none; later digits are smaller.
            digits = kept["symbol"] * vocab_size ** tf.maximum(index - kept["position"], 0)
            digits = tf.where(valid_slots & (kept["position"] > 0), digits, 0)
            code = tf.reduce_sum(digits, axis=2)  # [B, K]
            logits = tf.gather(cache.sentence["table"], code, batch_dims=1)
            attention = tf.gather(tf.constant(self.attention, tf.float32), previous)
            attention = tf.where(index > 0, attention, 0.0)
            return Scored(logits, recent, attention)

        def slots(positions):
            shape = [tf.shape(table)[0], 1, positions * beam_size]
            # What a slot holds before it is written must not matter.
            return {name: tf.fill(shape, 77) for name in ("symbol", "position")}

        cache = Cache(sentence={"table": table}, past=slots(0), recent=slots(self.block_size))
        covered = tf.zeros([tf.shape(table)[0], self.attention.shape[1]])
        rule = dataclasses.replace(self.rule, alpha=alpha)
        loop = SearchLoop(step, rule, self.block_size, xla=self.xla)
        return loop.run(cache, Limits(*limits, covered))

    def ids_and_scores(self, table, max_lengths, prefixes=None, numbers=None, alpha=None):
        prefixes = np.zeros([len(table), 0]) if prefixes is None else prefixes
        numbers = range(len(table)) if numbers is None else numbers
        integers = (np.array(each, np.int32) for each in (max_lengths, prefixes, numbers))
        return self.search(table, self.rule.alpha if alpha is None else alpha, *integers)

    def __call__(self, *sentences, **options):
        """Returns, for each sentence, [(symbols with the end, score), ...]."""
        ids, scores = self.ids_and_scores(*sentences, **options)
        return [
            [(tuple(row[row != 0].tolist()), float(score)) for row, score in zip(*found)]  # noqa: B905
            for found in zip(ids.numpy(), scores.numpy(), strict=True)
        ]
