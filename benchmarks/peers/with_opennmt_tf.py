"""OpenNMT-tf: its Transformer, its loss and its beam search. Option: xla, in training."""

import tempfile

import opennmt
import tensorflow as tf
import workload

tf.config.threading.set_intra_op_parallelism_threads(workload.THREADS)
tf.random.set_seed(1)
args = workload.arguments("xla")
size, ids_type = args.size, tf.TensorSpec([None, None], tf.int32)
embedders = [opennmt.inputters.WordEmbedder(embedding_size=size.d_model) for _ in "st"]
options = dict(dropout=workload.DROPOUT, attention_dropout=0.0, ffn_dropout=0.0, pre_norm=False)
options["share_embeddings"] = opennmt.models.EmbeddingsSharingLevel.ALL
sizes = (size.num_layers, size.d_model, size.num_heads, size.d_ff)
model = opennmt.models.Transformer(*embedders, *sizes, **options)
params = dict(label_smoothing=workload.LABEL_SMOOTHING, length_penalty=workload.ALPHA)
params |= dict(beam_width=workload.BEAM_SIZE, minimum_decoding_length=workload.OUTPUT_LENGTH)
params["maximum_decoding_length"] = workload.OUTPUT_LENGTH
with tempfile.NamedTemporaryFile("w") as file:
    # OpenNMT-tf adds an entry for unknown words.
    print("<blank>", "<s>", "</s>", *range(4, size.vocab_size), sep="\n", file=file, flush=True)
    model.initialize(dict(source_vocabulary=file.name, target_vocabulary=file.name), params)
model.create_variables()
for weight in model.trainable_variables:
    if weight.shape == (size.vocab_size, size.d_model):
        weight.assign(tf.random.normal(weight.shape, stddev=size.d_model**-0.5))
betas = dict(beta_1=workload.BETA_1, beta_2=workload.BETA_2, epsilon=workload.EPSILON)
adam = opennmt.optimizers.utils.make_optimizer("Adam", workload.LEARNING_RATE, **betas)


def _features(ids: tf.Tensor) -> dict[str, tf.Tensor]:
    return dict(ids=ids, length=tf.math.count_nonzero(ids, 1, dtype=tf.int32))


@tf.function(input_signature=[ids_type] * 3, jit_compile=bool(args.xla) or None)
def _step(source, target_input, target):
    labels = _features(target) | dict(ids=target_input, ids_out=target)
    with tf.GradientTape() as tape:
        outputs, _ = model(_features(source), labels, training=True, step=adam.iterations)
        total, _, tokens = model.compute_loss(outputs, labels, training=True)
        loss = total / tokens
    weights = model.trainable_variables
    # AutoGraph's zip has no `strict`.
    adam.apply_gradients(zip(tape.gradient(loss, weights), weights))  # noqa: B905
    return loss


@tf.function(input_signature=[ids_type])
def _search(source):
    return model(_features(source))[1]["tokens"][:, 0, : workload.OUTPUT_LENGTH]


if args.mode == "train":
    workload.time_training(args.size, lambda *batch: float(_step(*batch)))
else:
    workload.time_decoding(args, lambda source: _search(source).numpy().tolist())
