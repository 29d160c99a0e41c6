"""An example of each part that can be your own; docs/extending.md explains them.

Copy this folder, keep what you need, and pass it to a command as --t2t_usr_dir.
"""

import dataclasses

import keras
from keras import ops

import t2t_keras as t2t
from t2t_keras.data.problem import PairTransform
from t2t_keras.decoding.lines import LineStage, Prepared
from t2t_keras.hparams.transformer import transformer_base
from t2t_keras.layers import FeedForward
from t2t_keras.text.sources import ParallelFiles, SourceFile


@t2t.register_problem  # as translate_ende_help_desk, and swapped as translate_ende_help_desk_rev
class TranslateEndeHelpDesk(t2t.Problem):
    """Questions and answers of a help desk, English to German."""

    source_language: str = "en"  # fixed; a `setting` can be changed with --problem_config
    target_language: str = "de"
    vocab_size: int = t2t.setting(4000, "ids of the shared vocabulary", minimum=4)

    def files(self, tmp_dir):
        """Returns the files of each split."""
        return {
            split: [ParallelFiles(SourceFile(f"{split}.en"), SourceFile(f"{split}.de"))]
            for split in ("train", "dev", "test")
        }


@t2t.register_hparams
def transformer_more_dropout() -> t2t.HParams:
    """The paper's base model with P_drop 0.2 (Table 3, row D): 25.5 BLEU on newstest2013."""
    return dataclasses.replace(transformer_base(), dropout=0.2)


@dataclasses.dataclass(frozen=True)
class MultipleHParams(t2t.HParams):
    """The base model, with one more."""

    inner_multiple: int = t2t.setting(4, "d_ff as a multiple of d_model", minimum=1, maximum=9)


@t2t.register_hparams
def transformer_multiple():
    """The base model with an inner width that follows d_model."""
    return MultipleHParams(feed_forward="multiple", inner_multiple=3)


@t2t.register_feed_forward
def multiple(config, d_model, **kwargs):
    """The paper's, as wide as inner_multiple says."""
    return FeedForward(config.inner_multiple * d_model, config.relu_dropout, **kwargs)


@t2t.register_feed_forward
class GatedFeedForward(keras.layers.Layer):
    """(silu(x W) · x V) W_2 (Shazeer, 2020)."""

    def __init__(self, config, d_model, **kwargs):
        super().__init__(**kwargs)
        dtype = self.dtype_policy
        self.gate = keras.layers.Dense(config.d_ff, "silu", dtype=dtype, name="gate")
        self.value = keras.layers.Dense(config.d_ff, dtype=dtype, name="value")
        self.outer = keras.layers.Dense(d_model, dtype=dtype, name="outer")

    def call(self, x, training=None):
        """Returns the layer's output, of the shape of x: [..., d_model], of rank 2 or 3."""
        return self.outer(self.gate(x) * self.value(x))


@t2t.register_position_encoding
class Ramp(keras.layers.Layer):
    """Adds a hundredth of the position."""

    def __init__(self, config, **kwargs):
        super().__init__(**kwargs)

    def call(self, x, start=0, positions=None):
        """Returns x with positions. While decoding, x holds one, and start is its number.

        Where a row holds several sentences, `positions` [batch, length] begin anew in each.
        """
        positions = start + ops.arange(ops.shape(x)[1])[None] if positions is None else positions
        return x + ops.cast(positions, x.dtype)[..., None] / 100


@t2t.register_activation
def squared_relu(x):
    """The square of the ReLU (So et al., 2021)."""
    return ops.square(ops.relu(x))


@t2t.register_optimizer
def nesterov(hparams, schedule):
    """Gradient descent with Nesterov's momentum."""
    return keras.optimizers.SGD(schedule, momentum=hparams.adam_beta1, nesterov=True)


@t2t.register_schedule
def linear(hparams):
    """From a hundredth straight down to 0."""
    return keras.optimizers.schedules.PolynomialDecay(0.01, hparams.train_steps, 0.0)


@t2t.register_loss
def focal(logits, targets, hparams):
    """Cross-entropy that counts sure tokens less (Lin et al., 2017)."""
    log_probs = ops.take_along_axis(ops.log_softmax(logits), targets[..., None], axis=-1)[..., 0]
    return -ops.square(1 - ops.exp(log_probs)) * log_probs


@t2t.register_pair_transform
class Straight(PairTransform):
    """Straight quotation marks in targets."""

    def prepare(self, source, target):
        """Returns the changed pair."""
        return source, target.replace("\u201e", '"').replace("\u201c", '"')


@t2t.register_filter
def shouting(source, target):
    """Sources in capitals."""
    return source.isupper()


@t2t.register_augmentation
def run_together(source, target, random):
    """The source without one of its spaces."""
    words = source.split(" ")
    at = random.randrange(len(words))
    return " ".join(words[:at]) + " ".join(words[at:]), target


@t2t.register_metric
def exact_match(hypotheses, references, sources):
    """The percentage of translations that are the reference."""
    return 100 * sum(map(str.__eq__, hypotheses, references)) / len(references)


class OneDot(Prepared):
    """A line without its full stop."""

    def __init__(self, line):
        super().__init__(line.removesuffix("."))
        self.dot = line[len(self.text) :]

    def hide(self, output):
        """Returns an output as the model would write it."""
        return output.removesuffix(self.dot)

    def restore(self, output):
        """Returns the model's output with the full stop."""
        return output + self.dot


class Dots(LineStage):
    """Full stops at the end of lines are kept by a program, not by the model."""

    name = "dots"

    def prepare(self, line):
        """Returns the line as the model reads it."""
        return OneDot(line)


@t2t.register_line_stage
def dots(config, problem):
    """Full stops at the end of lines, in every problem; None would leave the stage out."""
    return Dots()
