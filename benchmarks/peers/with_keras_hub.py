"""Keras with KerasHub's layers, training only. Options: xla, jax."""

import os

import workload

args = workload.arguments("xla", "jax")
os.environ["KERAS_BACKEND"] = "jax" if args.jax else "tensorflow"
import keras  # noqa: E402
from keras import ops  # noqa: E402
from keras_hub import layers  # noqa: E402

keras.utils.set_random_seed(1)
size = args.size
if not args.jax:
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(workload.THREADS)
normal = keras.initializers.RandomNormal(stddev=size.d_model**-0.5)
shared = dict(tie_weights=True, embeddings_initializer=normal)
embedding = layers.ReversibleEmbedding(size.vocab_size, size.d_model, **shared)
positions, dropout = layers.SinePositionEncoding(), keras.layers.Dropout(workload.DROPOUT)
stack = dict(intermediate_dim=size.d_ff, num_heads=size.num_heads, dropout=workload.DROPOUT)


def _embed(ids):
    scaled = embedding(ids) * size.d_model**0.5
    return dropout(scaled + positions(scaled))


source, target_input = (keras.Input([None], dtype="int32") for _ in "st")
encoded, decoded, mask = _embed(source), _embed(target_input), source != workload.PADDING
for _ in range(size.num_layers):
    layer = layers.TransformerEncoder(**stack)
    encoded = layer(encoded, padding_mask=mask)
    layer._self_attention_layer._dropout = 0.0
for _ in range(size.num_layers):
    layer = layers.TransformerDecoder(**stack)
    decoded = layer(decoded, encoded, encoder_padding_mask=mask)
    layer._self_attention_layer._dropout = layer._cross_attention_layer._dropout = 0.0
model = keras.Model([source, target_input], embedding(decoded, reverse=True))


def _loss(target, logits):
    is_token = ops.cast(target != workload.PADDING, "float32")
    gold = keras.losses.sparse_categorical_crossentropy(target, logits, from_logits=True)
    uniform = ops.logsumexp(logits, -1) - ops.mean(logits, -1)
    loss = gold + workload.LABEL_SMOOTHING * (uniform - gold)
    return ops.sum(loss * is_token) / ops.sum(is_token)


def _step(source, target_input, target):
    model.reset_metrics()
    return float(model.train_on_batch([source, target_input], target))


betas = (workload.BETA_1, workload.BETA_2)
adam = keras.optimizers.Adam(workload.LEARNING_RATE, *betas, workload.EPSILON)
model.compile(adam, _loss, jit_compile=bool(args.xla or args.jax))
workload.time_training(size, _step)
