"""The Transformer of "Attention Is All You Need" (Vaswani et al., 2017) in Keras, on one page.

python examples/transformer.py DIR --source=en --target=de

Learns subwords and a small model from DIR/train.en and DIR/train.de, averages its last checkpoints,
translates DIR/test_2016_flickr.en, and prints BLEU. Comments in quotes are the paper's words.
"""

import argparse
import dataclasses
import io
import time
from pathlib import Path

import keras
import numpy as np
import sacrebleu
from keras import layers, ops
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

PAD, EOS, UNKNOWN = 0, 1, 2
ON_JAX = keras.backend.backend() == "jax"
LENGTH_MULTIPLE = 8 if ON_JAX else 1  # JAX compiles a model for each shape.


@dataclasses.dataclass
class Settings:
    """Names of files, and sizes for 30,000 pairs; the paper's base model stands in comments."""

    folder: str
    source: str = "en"
    target: str = "de"
    train: str = "train"
    dev: str = "val"
    test: str = "test_2016_flickr"
    vocab_size: int = 8000  # 37,000
    num_layers: int = 4  # 6
    d_model: int = 128  # 512
    d_ff: int = 256  # 2,048
    num_heads: int = 4  # 8
    dropout: float = 0.3  # 0.1
    label_smoothing: float = 0.1  # 0.1
    batch_tokens: int = 2048  # 25,000
    learning_rate: float = 0.6  # 1, as a factor
    warmup_steps: int = 1000  # 4,000
    epochs: int = 32  # 100,000 steps
    seed: int = 1


def learn_subwords(lines, vocab_size):
    """Returns a SentencePiece model, which turns text into ids of subwords, and ids into text."""
    # "byte-pair encoding, which has a shared source-target vocabulary of about 37000 tokens".
    model, ids = io.BytesIO(), dict(pad_id=PAD, eos_id=EOS, unk_id=UNKNOWN, bos_id=-1)
    options = dict(model_type="bpe", vocab_size=vocab_size, character_coverage=1.0, minloglevel=2)
    SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=model, **ids, **options)
    return SentencePieceProcessor(model_proto=model.getvalue())


def padded(sentences):
    """Returns lists of ids as an array [sentences, length], with padding behind shorter ones."""
    length = -(-max(map(len, sentences)) // LENGTH_MULTIPLE) * LENGTH_MULTIPLE
    return np.array([[*ids, *[PAD] * (length - len(ids))] for ids in sentences], "int32")


def make_batches(pairs, batch_tokens, random):
    """Yields each pair once, in arrays (source, target) of at most `batch_tokens` ids each."""
    # "Sentence pairs were batched together by approximate sequence length."
    order = random.permutation(len(pairs)).tolist()
    order.sort(key=lambda i: (len(pairs[i][1]), len(pairs[i][0])))
    batches, longest = [[]], 0
    for pair in (pairs[i] for i in order):
        longest = max(longest, *map(len, pair))
        if (len(batches[-1]) + 1) * longest > batch_tokens and batches[-1]:
            batches.append([])
            longest = max(map(len, pair))
        batches[-1].append(pair)
    for number in random.permutation(len(batches)):
        yield tuple(map(padded, zip(*batches[number], strict=True)))


class Attention(layers.Layer):
    """MultiHead(Q, K, V) = Concat(head_1, ..., head_h) W^O (section 3.2)."""

    def __init__(self, settings):
        super().__init__()
        self.num_heads, self.d_k = settings.num_heads, settings.d_model // settings.num_heads
        # Weights as small as those of one matrix for all three: larger ones learn to attend late.
        small = keras.initializers.VarianceScaling(0.5, "fan_avg", "uniform")
        options = dict(use_bias=False, kernel_initializer=small)
        self.projections = [layers.Dense(settings.d_model, **options) for _ in range(3)]
        self.output_projection = layers.Dense(settings.d_model, use_bias=False)

    def call(self, x, memory, visible):
        """Lets each position of x attend to the visible positions of the memory."""
        # "linearly project the queries, keys and values h times".
        query, key, value = (
            ops.reshape(project(y), (-1, ops.shape(y)[1], self.num_heads, self.d_k))
            for project, y in zip(self.projections, (x, memory, memory), strict=True)
        )
        # "We compute the dot products of the query with all keys, divide each by sqrt(d_k), and
        # apply a softmax function to obtain the weights on the values."
        scores = ops.einsum("bqhd,bkhd->bhqk", query / self.d_k**0.5, key)
        # "masking out (setting to -∞) all values in the input of the softmax" that are not visible.
        weights = ops.softmax(ops.where(visible, scores, -1e9))
        # "These are concatenated and once again projected, resulting in the final values".
        heads = ops.einsum("bhqk,bkhd->bqhd", weights, value)
        return self.output_projection(ops.reshape(heads, ops.shape(x)))


def feed_forward(settings):
    """Returns "two linear transformations with a ReLU activation in between" (section 3.3)."""
    inner = layers.Dense(settings.d_ff, activation="relu")
    return keras.Sequential([inner, layers.Dense(settings.d_model)])


class Residual(layers.Layer):
    """LayerNorm(x + Dropout(Sublayer(x))) (sections 3.1 and 5.4)."""

    def __init__(self, sublayer, dropout):
        super().__init__()
        self.sublayer, self.dropout = sublayer, layers.Dropout(dropout)
        self.norm = layers.LayerNormalization(epsilon=1e-6)

    def call(self, x, memory=None, visible=None):
        """Runs the sub-layer on x, or an attention on x and a memory."""
        # "We apply dropout to the output of each sub-layer, before it is added" to x.
        output = self.sublayer(x) if memory is None else self.sublayer(x, memory, visible)
        return self.norm(x + self.dropout(output))


class Transformer(keras.Model):
    """The encoder and the decoder of figure 1, ready for training."""

    def __init__(self, settings):
        super().__init__()
        self.settings = settings
        # "the same weight matrix between the two embedding layers and the pre-softmax" projection.
        normal = keras.initializers.RandomNormal(stddev=settings.d_model**-0.5)
        self.embedding = layers.Embedding(settings.vocab_size, settings.d_model, normal)
        self.dropout = layers.Dropout(settings.dropout)

        def stack(make):
            return [Residual(make(settings), settings.dropout) for _ in range(settings.num_layers)]

        # "The first is a multi-head self-attention mechanism, and the second is a simple, position-
        # wise fully connected feed-forward network" (section 3.1).
        self.encoder_attention, self.encoder_network = stack(Attention), stack(feed_forward)
        self.decoder_attention, self.decoder_network = stack(Attention), stack(feed_forward)
        # "a third sub-layer, which performs multi-head attention over the output of the encoder".
        self.memory_attention = stack(Attention)
        # "We used the Adam optimizer with β_1 = 0.9, β_2 = 0.98 and ε = 10^-9" (section 5.3).
        self.compile(keras.optimizers.Adam(0.0, 0.9, 0.98, 1e-9), jit_compile=ON_JAX)

    def call(self, pair, training=None):  # Keras hands `training` on to dropout only if it is here.
        """Turns ids (source, target) into logits [batch, target length, vocabulary]."""
        return self.decode(pair[1], *self.encode(pair[0]))

    def encode(self, source):
        """Returns the memory, states of the source, and which of its positions are visible."""
        x, visible = self.embed(source), ops.not_equal(source, PAD)[:, None, None, :]
        for attend, network in zip(self.encoder_attention, self.encoder_network, strict=True):
            x = network(attend(x, x, visible))
        return x, visible

    def decode(self, target, memory, visible, positions=slice(None)):
        """Returns logits of the target at some positions, each from the targets before it."""
        # "depend only on the known outputs at positions less than i".
        x, position = self.embed(target, offset=1), ops.arange(ops.shape(target)[1])
        causal = position[:, None] >= position
        for i in range(self.settings.num_layers):
            x = self.decoder_attention[i](x, x, causal)
            x = self.memory_attention[i](x, memory, visible)
            x = self.decoder_network[i](x)
        return ops.matmul(x[:, positions], ops.transpose(self.embedding.embeddings))

    def embed(self, ids, offset=0):
        """Returns vectors of ids, moved to the right by `offset`, and of their positions."""
        # "In the embedding layers, we multiply those weights by sqrt(d_model)."
        length, d_model = ops.shape(ids)[1], self.settings.d_model
        x = ops.pad(self.embedding(ids) * d_model**0.5, [[0, 0], [offset, 0], [0, 0]])[:, :length]
        # PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos(pos / 10000^(2i/d_model))
        rates = (1e4 ** -(np.arange(0, d_model, 2) / d_model)).astype("float32")
        angles = ops.arange(length, dtype="float32")[:, None] * rates
        waves = ops.stack([ops.sin(angles), ops.cos(angles)], axis=-1)
        # "we apply dropout to the sums of the embeddings and the positional encodings".
        return self.dropout(x + ops.reshape(waves, (length, d_model)))

    def compute_loss(self, x, y, y_pred, *_):
        """Returns the mean over tokens of -Σ q log p (section 5.4)."""
        # "During training, we employed label smoothing of value ε_ls = 0.1." The target y has the
        # label 1 - ε instead of 1, and all V symbols share ε.
        smoothing, vocab_size = self.settings.label_smoothing, self.settings.vocab_size
        labels = ops.one_hot(y, vocab_size) * (1 - smoothing) + smoothing / vocab_size
        losses = ops.categorical_crossentropy(labels, y_pred, from_logits=True)
        tokens = ops.cast(ops.not_equal(y, PAD), "float32")
        return ops.sum(losses * tokens) / ops.sum(tokens)


def learning_rate(step, settings):
    """Returns d_model^-0.5 · min(step_num^-0.5, step_num · warmup_steps^-1.5) (section 5.3)."""
    # "increasing the learning rate linearly for the first warmup_steps training steps, and
    # decreasing it thereafter proportionally to the inverse square root of the step number".
    rate = min(step**-0.5, step * settings.warmup_steps**-1.5)
    return settings.learning_rate * settings.d_model**-0.5 * rate


def train(model, pairs, dev_pairs, settings):
    """Trains a model; its weights become the mean of the last checkpoints."""
    random, start = np.random.default_rng(settings.seed), time.time()
    step, checkpoints = 0, []
    for epoch in range(1, settings.epochs + 1):
        losses = []
        for source, target in make_batches(pairs, settings.batch_tokens, random):
            step += 1
            model.optimizer.learning_rate = learning_rate(step, settings)
            losses.append(model.train_on_batch((source, target), target))
        checkpoints = [*checkpoints[-4:], model.get_weights()]
        dev = make_batches(dev_pairs, settings.batch_tokens, random)
        dev_losses = [model.test_on_batch(batch, batch[1]) for batch in dev]
        figures = dict(epoch=epoch, step=step, loss=np.mean(losses), dev_loss=np.mean(dev_losses))
        figures |= dict(minutes=(time.time() - start) / 60, cpu_minutes=time.process_time() / 60)
        print(", ".join(f"{name} {value:.4g}" for name, value in figures.items()), flush=True)
    # "we used a single model obtained by averaging the last 5 checkpoints" (section 6.1).
    model.set_weights([np.mean(weights, axis=0) for weights in zip(*checkpoints, strict=True)])


def beam_search(model, source, beam_size=4, alpha=0.6):
    """Returns the best output, a list of ids, for each row of source ids (section 6.1)."""
    # "We used beam search with a beam size of 4 and length penalty alpha = 0.6."
    # "We set the maximum output length during inference to input length + 50".
    memory, visible = (ops.repeat(x, beam_size, axis=0) for x in model.encode(source))
    rows, longest = np.arange(len(source))[:, None], np.count_nonzero(source, axis=1) + 50
    best, best_scores = [[]] * len(source), np.full(len(source), -np.inf)
    outputs = np.zeros((len(source), beam_size, 0), "int32")  # At first one, which is empty.
    log_probs = np.tile(np.float32([0] + [-np.inf] * (beam_size - 1)), (len(source), 1))
    for length in range(1, longest.max() + 1):
        # One position for what comes next, and one since Keras warns of attention to a single one.
        prefixes = padded([[*ids, PAD, PAD] for ids in np.concatenate(outputs)])
        logits = model.decode(prefixes, memory, visible, length - 1)
        impossible = np.zeros((len(source), 1, logits.shape[-1]), "float32")
        impossible[:, :, PAD] = impossible[longest == length, :, EOS + 1 :] = -np.inf
        totals = ops.reshape(ops.log_softmax(logits), (len(source), beam_size, -1)) + impossible
        totals = ops.reshape(totals + log_probs[:, :, None], (len(source), -1))
        # Twice as many continuations as hypotheses: at most half of them are ends.
        totals, chosen = map(ops.convert_to_numpy, ops.top_k(totals, 2 * beam_size))
        parents, symbols = np.divmod(chosen, logits.shape[-1])
        ends = symbols == EOS
        for row, rank in np.argwhere(ends[:, :beam_size]):
            score = totals[row, rank] / ((5 + length) / 6) ** alpha
            if score > best_scores[row]:
                best[row], best_scores[row] = outputs[row, parents[row, rank]].tolist(), score
        live = np.argsort(ends, axis=1, kind="stable")[:, :beam_size]
        log_probs = np.where(ends, np.float32(-np.inf), totals)[rows, live]
        outputs = np.concatenate([outputs[rows, parents[rows, live]], symbols[rows, live, None]], 2)
        # A log-probability only falls, and the longest output has the largest penalty.
        done = best_scores >= log_probs[:, 0] / ((5 + longest) / 6) ** alpha
        log_probs[done] = -np.inf
        if done.all():
            break
    return best


def translate(model, subwords, lines, batch_size=64):
    """Returns a translation of each line."""
    sources, translations = subwords.encode(lines, add_eos=True), [""] * len(lines)
    order = sorted(range(len(lines)), key=lambda i: len(sources[i]))
    for group in (order[i : i + batch_size] for i in range(0, len(order), batch_size)):
        outputs = beam_search(model, padded([sources[i] for i in group]))
        for i, ids in zip(group, outputs, strict=True):
            translations[i] = subwords.decode(ids)
    return translations


def main(settings):
    """Learns from the text of a folder, and prints BLEU of its dev and test set."""
    keras.utils.set_random_seed(settings.seed)

    def read(name):
        paths = (f"{settings.folder}/{name}.{code}" for code in (settings.source, settings.target))
        return [Path(path).read_text("utf-8").removesuffix("\n").split("\n") for path in paths]

    def encoded(text):
        return [*zip(*(subwords.encode(lines, add_eos=True) for lines in text), strict=True)]

    train_text, dev_text = read(settings.train), read(settings.dev)
    subwords = learn_subwords([*train_text[0], *train_text[1]], settings.vocab_size)
    model = Transformer(settings)
    train(model, encoded(train_text), encoded(dev_text), settings)
    for name in (settings.dev, settings.test):
        sources, references = read(name)
        bleu = sacrebleu.corpus_bleu(translate(model, subwords, sources), [references])
        print(f"{name}: {bleu.score:.2f} BLEU")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", help="folder of parallel text: NAME.SOURCE and NAME.TARGET")
    for field in dataclasses.fields(Settings)[1:]:
        parser.add_argument(f"--{field.name}", type=field.type, default=field.default)
    main(Settings(**vars(parser.parse_args())))
