"""A "model" that is a table: random logits of the next symbol for every prefix.

Its step knows a prefix only from the slots of its cache that are valid, so a wrong one of these
gives wrong scores.
"""

import dataclasses

import numpy as np
import tensorflow as tf

from t2t_keras.decoding.search import Cache, Limits, SearchLoop, StepResult

BLOCK_SIZE = 3
EOS = 1


def prefix_code(prefix, vocab_size):
    """Symbols are >= 1, so the digits of the number tell prefixes of all lengths apart."""
    return sum(int(symbol) * vocab_size**place for place, symbol in enumerate(prefix))


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


def plain_beam_search(following, max_length, alpha, beam_size, penalty=lambda symbols: 0.0):
    """Returns [(symbols with the end, score), ...], best first.

    It follows each hypothesis as a tuple until nothing is live: no early stop, no tensors.

    `following(prefix)` gives the log-probability of every symbol after a tuple of symbols;
    `penalty(symbols)`, what a finished one's score loses besides.
    """
    live, finished = [((), 0.0)], []
    while live:
        continuations = []
        for symbols, log_prob in live:
            next_log_probs = following(symbols)
            at_last = len(symbols) == max_length - 1
            allowed = [EOS] if at_last else range(1, len(next_log_probs))
            continuations += [((*symbols, i), log_prob + next_log_probs[i]) for i in allowed]
        continuations.sort(key=lambda continuation: -continuation[1])
        for symbols, log_prob in continuations[:beam_size]:
            if symbols[-1] == EOS:
                score = log_prob / ((5 + len(symbols)) / 6) ** alpha - penalty(symbols)
                finished.append((symbols, score))
        live = [continuation for continuation in continuations if continuation[0][-1] != EOS][
            :beam_size
        ]
        if beam_size == 1 and finished:
            break
    return sorted(finished, key=lambda hypothesis: -hypothesis[1])


class Search:
    """Decodes a table of logits by a rule, compiled once for all sentences and alphas.

    Its attention is `attention(previous)`, [symbols, source length], where that is given.
    Grammars read `sources`, [sentences, source length].
    """

    def __init__(self, rule, vocab_size, xla=False, attention=None, sources=None):
        self.rule, self.xla, self.sources = rule, xla, sources
        self.attention = np.zeros([vocab_size, 0]) if attention is None else attention
        integers = [tf.TensorSpec([None] * rank, tf.int32) for rank in (1, 2, 1)]
        floats = [tf.TensorSpec(shape, tf.float32) for shape in ([None, None, vocab_size], [])]
        self.search = tf.function(
            self._search, input_signature=[*floats, *integers], autograph=False
        )

    def _search(self, table, alpha, *limits):
        vocab_size, beam_size = table.shape[-1], self.rule.beam_size

        def step(previous, index, position, valid_slots, cache):
            # A slot holds the digit of its symbol; before the first symbol is none.
            digits = tf.where(index > 0, previous * vocab_size ** tf.maximum(index - 1, 0), 0)
            slots = tf.range(BLOCK_SIZE * beam_size) - position * beam_size
            written = tf.gather(digits, tf.clip_by_value(slots, 0, beam_size - 1), axis=1)
            now = (slots >= 0) & (slots < beam_size)
            recent = tf.where(now, written[:, None], cache.recent)
            slots_so_far = tf.concat([cache.past, recent], axis=2)
            code = tf.reduce_sum(tf.where(valid_slots, slots_so_far, 0), axis=2)  # [B, K]
            attention = tf.gather(tf.constant(self.attention, tf.float32), previous)
            logits = tf.gather(cache.sentence, code, batch_dims=1)
            return StepResult(logits, recent, tf.where(index > 0, attention, 0.0))

        # What a slot holds before it is written must not matter.
        recent = tf.fill([tf.shape(table)[0], 1, BLOCK_SIZE * beam_size], 77)
        cache = Cache(sentence=table, past=recent[:, :, :0], recent=recent)
        covered = tf.zeros([tf.shape(table)[0], self.attention.shape[1]])
        loop = SearchLoop(
            step, dataclasses.replace(self.rule, alpha=alpha), BLOCK_SIZE, xla=self.xla
        )
        grammars = self.rule.constraints.grammars
        data = tuple(grammar.start(tf.constant(self.sources)) for grammar in grammars)
        return loop.run(cache, Limits(*limits, covered, data))

    def ids_and_scores(self, table, max_lengths, prefixes=None, numbers=None, alpha=None):
        prefixes = np.zeros([len(table), 0]) if prefixes is None else prefixes
        numbers = range(len(table)) if numbers is None else numbers
        integers = (np.array(values, np.int32) for values in (max_lengths, prefixes, numbers))
        return self.search(table, self.rule.alpha if alpha is None else alpha, *integers)

    def __call__(self, *sentences, **options):
        """Returns, for each sentence, [(symbols with the end, score), ...]."""
        ids, scores = self.ids_and_scores(*sentences, **options)
        return [
            [(tuple(row[row != 0].tolist()), float(score)) for row, score in zip(*actual)]  # noqa: B905
            for actual in zip(ids.numpy(), scores.numpy(), strict=True)
        ]
