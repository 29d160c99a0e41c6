"""What each way to make a training step faster is worth: the step in turns with one that differs.

    python benchmarks/step_changes.py --hparams_set=transformer_base --vocab_size=32000
        --tokens=1024 --length=32 [--hparams=...] [--only=padding,flat]

First come steps that lack what the code has, then some that have what it lacks, each in turns with
the step as it is. The ratio of a round is that of two steps that follow each other; the median
counts. A ratio above 1: slower than the code as it is.
"""

import contextlib
import functools
import itertools
import statistics
import types
from unittest import mock

from absl import app, flags
from profiled_model import VOCAB_SIZE, new_step
from turns import seconds_in_turns

_TOKENS = flags.DEFINE_integer("tokens", 1024, "Places of the step on either side.")
_LENGTH = flags.DEFINE_integer("length", 32, "Tokens of the longest sentence; the shortest: 3/4.")
_ROUNDS = flags.DEFINE_integer("rounds", 9, "Rounds in turns.", lower_bound=1)
_ONLY = flags.DEFINE_list("only", [], "Parts of the names to try; default: all.")


def main(_) -> None:
    """Prints a row for each difference."""
    import numpy as np

    from t2t_keras.data.batches import TokenArrays

    generator = np.random.default_rng(0)
    shape = (_TOKENS.value // _LENGTH.value, _LENGTH.value)
    ids = generator.integers(3, VOCAB_SIZE.value, shape, np.int32)
    lengths = generator.integers(3 * _LENGTH.value // 4, _LENGTH.value + 1, (len(ids), 1))
    ids = np.where(np.arange(_LENGTH.value) < lengths, ids, 0).astype(np.int32)
    print(f"{(ids == 0).mean():.0%} padding, {_ROUNDS.value} rounds", flush=True)

    def way(step):
        return lambda: float(step.update(step.steps_done(), [[TokenArrays(ids, ids)]])["loss"])

    as_it_is = way(new_step())
    as_it_is()
    print("| step | ms | the code as it is, ms | ratio | from | to |\n|---|---|---|---|---|---|")
    for name, difference in _DIFFERENCES.items():
        if _ONLY.value and not any(part in name for part in _ONLY.value):
            continue
        with difference():
            differs = way(new_step())
            differs()
        seconds = seconds_in_turns({"own": as_it_is, "other": differs}, _ROUNDS.value)
        ratios = [other / own for own, other in zip(*seconds.values(), strict=True)]
        own, other = (statistics.median(each) * 1e3 for each in seconds.values())
        print(
            f"| {name} | {other:,.0f} | {own:,.0f} | {statistics.median(ratios):.2f} "
            f"| {min(ratios):.2f} | {max(ratios):.2f} |",
            flush=True,
        )


# What follows changes the code while a step is made and traced.


def _padding_is_computed():
    from t2t_keras.training.tensorflow_step import TensorFlowStep

    token_sums = TensorFlowStep._token_sums

    def of_all_places(step, *arguments, **options):
        step._packed = False
        return token_sums(step, *arguments, **options)

    return mock.patch.object(TensorFlowStep, "_token_sums", of_all_places)


def _one_hot_smoothing():
    import keras
    from keras import ops

    from t2t_keras.training import losses

    def one_hot_loss(logits, targets, label_smoothing=0.0):
        one_hot = ops.one_hot(targets, logits.shape[-1])
        smoothed = (1 - label_smoothing) * one_hot + label_smoothing / logits.shape[-1]
        loss = keras.losses.categorical_crossentropy(smoothed, logits, from_logits=True)
        unsmoothed = keras.losses.sparse_categorical_crossentropy(targets, logits, from_logits=True)
        correct = ops.cast(ops.equal(ops.argmax(logits, axis=-1), targets), "float32")
        return loss, ops.stop_gradient(unsmoothed), correct

    return mock.patch.object(losses, "smoothed_cross_entropy", one_hot_loss)


def _adam_of_many_operators():
    import keras

    def update(self, gradients, variables, learning_rate):
        for gradient, variable in zip(gradients, variables, strict=True):
            keras.optimizers.Adam.update_step(self, gradient, variable, learning_rate)

    return _other_adam(update)


def _flat_adam():
    import keras
    import tensorflow as tf

    from t2t_keras.training.adam import Adam

    update_weights, flat = Adam.update_weights, []

    def update(self, gradients, variables, learning_rate):
        sizes = [variable.shape.num_elements() for variable in variables]
        if not flat:
            with tf.init_scope():
                flat.append(keras.Variable(tf.zeros(sum(sizes))))
                flat.append(Adam(beta_1=self.beta_1, beta_2=self.beta_2, epsilon=self.epsilon))
                flat[1].build(flat[:1])
        weights, optimizer = flat[0].value, flat[1]
        gradient = tf.concat([tf.reshape(each, [-1]) for each in gradients], 0)
        update_weights(optimizer, [gradient], [weights], learning_rate)
        # The layers read their own weights, which therefore have to be written once more.
        for variable, new in zip(variables, tf.split(weights.read_value(), sizes), strict=True):
            variable.assign(tf.reshape(new, variable.shape))

    return _other_adam(update)


def _other_adam(update):
    from t2t_keras.training.adam import Adam

    return mock.patch.object(Adam, "update_weights", update)


def _no_dropout():
    import keras

    return mock.patch.object(keras.layers.Dropout, "call", lambda self, x, training=None: x)


def _layer_normalization_of_keras():
    import keras

    from t2t_keras.layers import LayerNormalization

    def call(self, x):
        return keras.layers.LayerNormalization.call(self, x)

    return mock.patch.object(LayerNormalization, "call", call)


def _softmax_of_many_operators():
    from keras import ops

    from t2t_keras.training import losses

    def softmax(logits, axis):
        exponentials = ops.exp(logits - ops.max(logits, axis=axis, keepdims=True))
        return exponentials / ops.sum(exponentials, axis=axis, keepdims=True)

    other = types.SimpleNamespace(**{**vars(ops), "softmax": softmax})
    return mock.patch.object(losses, "ops", other)


def _one_product(groups):
    """Has one product make what several make.

    Args:
      groups: returns those attention weights of a model that are multiplied side by side.
    """
    from keras import ops

    from t2t_keras.layers.attention import MultiHeadAttention
    from t2t_keras.models.transformer import Transformer

    together, made = {}, {}
    call, alone = Transformer.call, MultiHeadAttention._split_heads

    # Keras looks at the signature, and drops `training` where it finds none.
    @functools.wraps(call)
    def find_groups(model, *arguments, **options):
        together.update({id(each): group for group in groups(model) for each in group})
        return call(model, *arguments, **options)

    def split_heads(layer, x, weights, width, packing):
        if id(weights) not in together:
            return alone(layer, x, weights, width, packing)
        if id(weights) not in made:
            group = together[id(weights)]
            projected = layer._project(x, ops.concatenate(group, axis=1))
            parts = ops.split(projected, len(group), axis=-1)
            made.update({id(each): part for each, part in zip(group, parts, strict=True)})
        heads = ops.reshape(made.pop(id(weights)), (-1, layer.num_heads, width))
        return ops.transpose(packing.unpack(heads), (0, 2, 1, 3))

    stack = contextlib.ExitStack()
    stack.enter_context(mock.patch.object(Transformer, "call", find_groups))
    stack.enter_context(mock.patch.object(MultiHeadAttention, "_split_heads", split_heads))
    return stack


def _self_attention_groups(model):
    layers = [layer.self_attention for layer in (*model.encoder, *model.decoder)]
    return [[each.query_projection, each.key_projection, each.value_projection] for each in layers]


def _memory_groups(model):
    layers = [layer.memory_attention for layer in model.decoder]
    return [[each.key_projection, each.value_projection] for each in layers]


_DIFFERENCES = {
    "without: padding left out": _padding_is_computed,
    "without: smoothing that needs no one-hot": _one_hot_smoothing,
    "without: Adam as one operator a weight": _adam_of_many_operators,
    "without: layer normalisation with its own gradient": _layer_normalization_of_keras,
    "without: the loss's softmax as one operator": _softmax_of_many_operators,
    "without any dropout, masks and all": _no_dropout,
    "with: Adam over flat weights": _flat_adam,
    "with: one product for Q, K and V": lambda: _one_product(_self_attention_groups),
    "with: one product for K and V of the memory": lambda: _one_product(_memory_groups),
    "with: one product for K and V of the memory, all layers": lambda: _one_product(
        lambda model: [list(itertools.chain(*_memory_groups(model)))]
    ),
}


if __name__ == "__main__":
    app.run(main)
