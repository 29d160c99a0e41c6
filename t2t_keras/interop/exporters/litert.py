"""Exports one LiteRT (formerly TensorFlow Lite) file: greedy decoding, ids to ids."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf
from tensorflow.lite.python.convert_phase import ConverterError

from t2t_keras.decoding.translator import Translator
from t2t_keras.errors import translated_errors
from t2t_keras.interop.exporters.exported import greedy_model, write_companion_files
from t2t_keras.layers.base import layout_of
from t2t_keras.special_ids import EOS_ID, PADDING_ID

FILE = "model.tflite"


def write(translator: Translator, folder: Path, dtype: str) -> None:
    """Writes the model with the vocabulary, a README.md and a config.json.

    The model uses LiteRT's built-in operators only, and takes one sentence at a time.

    Args:
      translator: the model, the vocabulary and the settings.
      folder: the folder to write to.
      dtype: type of the stored weights: "float32", "float16", or "int8" with integer products.

    Raises:
      UserError: see `greedy_model`; or LiteRT cannot represent the model.
    """
    module = tf.Module()
    module.translate = _graph_function(translator)
    # LiteRT can call a function by name only if a module has it.
    with _position_tables(translator):
        functions = [module.translate.get_concrete_function()]
    converter = tf.lite.TFLiteConverter.from_concrete_functions(functions, module)
    if dtype != "float32":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if dtype == "float16":
        converter.target_spec.supported_types = [tf.float16]
    text = "LiteRT cannot represent the model"
    with translated_errors(ConverterError, text, code="not_supported"):
        (folder / FILE).write_bytes(converter.convert())
    write_companion_files(
        translator,
        folder,
        file=FILE,
        dtype=dtype,
        program="LiteRT",
        imports="from ai_edge_litert.interpreter import Interpreter",
        translate=f'translator = Interpreter("{FILE}").get_signature_runner()\n'
        'outputs = translator(ids=ids)["translation"]',
        batch="The model takes one row at a time.",
    )


@contextlib.contextmanager
def _position_tables(translator: Translator) -> Iterator[None]:
    """Uses tables of position encodings while active: LiteRT cannot compute them in float64."""
    model, config = translator.models[0], translator.config
    length = model.config.first_position + config.max_input_length + config.extra_length
    layers = [layer for layer in model._flatten_layers() if hasattr(layer, "table_length")]
    for layer in layers:
        layer.table_length = length
    try:
        yield
    finally:
        for layer in layers:
            layer.table_length = 0


def _graph_function(translator: Translator) -> tf.types.experimental.PolymorphicFunction:
    """Returns a graph function: ids int32 [1, S] -> {"translation": int32 [1, L]}."""
    model, config = greedy_model(translator, "litert"), translator.config
    max_output_length = config.max_output_length(config.max_input_length)
    weights = [(weight, weight.numpy()) for weight in model.weights]

    def translate(ids: tf.Tensor) -> dict[str, tf.Tensor]:
        # Keras would count negative ids from the end; an id beyond the table is an error.
        ids = tf.where(ids < 0, model.source_embedding.vocab_size, ids)
        length = tf.math.count_nonzero(ids, dtype=tf.int32)
        last_index = tf.minimum(length + config.extra_length, max_output_length) - 1
        # A blank sentence, which is only EOS or padding, ends at once.
        last_index = tf.where(tf.reduce_any(ids > EOS_ID), last_index, 0)
        layout = layout_of(ids)
        # Asking for scores avoids blockwise attention, whose shapes LiteRT does not support.
        memory, mask, _ = model.encode(ids, layout, return_attention_scores=True, training=False)
        cache = model.start_cache(memory, mask, block_size=0, layout=layout)

        def is_unfinished(_: tf.Tensor, outputs: tf.Tensor, *__: Any) -> tf.Tensor:
            return outputs[0, -1] != EOS_ID

        def decode_next(index: tf.Tensor, outputs: tf.Tensor, recent: Any) -> tuple:
            # Every step reads and writes all slots, so add one slot at a time.
            recent = tf.nest.map_structure(_add_slot, recent)
            previous = outputs[:, -1, None]
            logits, new_cache = model.decode_step(previous, index, {**cache, "recent": recent})
            symbols = tf.range(model.vocab_size)
            excluded = symbols == PADDING_ID
            if config.min_length > 1:
                excluded |= (symbols == EOS_ID) & (index < config.min_length - 1)
            best = tf.argmax(tf.where(excluded, -1e9, logits[0, 0]), output_type=tf.int32)
            next_ids = tf.where(index >= last_index, EOS_ID, best)
            outputs = tf.concat([outputs, next_ids[None, None]], axis=1)
            return index + 1, outputs, new_cache["recent"]

        recent = cache.pop("recent")
        start = tf.constant(0), tf.constant([[PADDING_ID]]), recent
        recent_shapes = tf.nest.map_structure(
            lambda x: tf.TensorShape([1, x.shape[1], None, x.shape[3]]), recent
        )
        shapes = tf.TensorShape([]), tf.TensorShape([1, None]), recent_shapes
        _, outputs, _ = tf.while_loop(is_unfinished, decode_next, start, shape_invariants=shapes)
        return {"translation": outputs[:, 1:]}

    def translate_with_constants(ids: tf.Tensor) -> dict[str, tf.Tensor]:
        constants = [(weight, tf.constant(value)) for weight, value in weights]
        with keras.StatelessScope(constants):
            return translate(ids)

    ids = tf.TensorSpec([1, None], tf.int32, name="ids")
    return tf.function(translate_with_constants, input_signature=[ids], autograph=False)


def _add_slot(x: tf.Tensor) -> tf.Tensor:
    return tf.pad(x, [[0, 0], [0, 0], [0, 1], [0, 0]])
