"""Exports for CTranslate2, which translates without TensorFlow, also in int8."""

import dataclasses
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from ctranslate2 import specs
from ctranslate2.specs.common_spec import Activation
from ctranslate2.specs.transformer_spec import TransformerDecoderSpec, TransformerEncoderSpec

from t2t_keras.decoding.keras_engine import alignment_layer
from t2t_keras.decoding.translator import Translator
from t2t_keras.errors import UserError
from t2t_keras.hyperparameters import HParams, ModelConfig
from t2t_keras.interop.engines.ctranslate2 import check_settings
from t2t_keras.interop.engines.ctranslate2_export import RECORD_FILE
from t2t_keras.interop.exporters.exported import check_config, supported_model
from t2t_keras.io.files import write_json
from t2t_keras.layers.embedding import sinusoids
from t2t_keras.models.transformer import Transformer
from t2t_keras.special_ids import EOS_ID, PADDING_ID, UNKNOWN_ID
from t2t_keras.text.tokenizer import Tokenizer
from t2t_keras.training.run_config import RunConfig

_ACTIVATIONS = {
    "relu": Activation.RELU,
    "gelu": Activation.GELU,
    "gelu_tanh": Activation.GELUTanh,
    "silu": Activation.SWISH,
    "sigmoid": Activation.Sigmoid,
    "tanh": Activation.Tanh,
}


def write(translator: Translator, folder: Path, dtype: str) -> None:
    """Writes a model for CTranslate2, the vocabulary and a record for `Translator`.

    Programs that call CTranslate2 themselves pass the pieces of a source without EOS. If two ids
    have the same piece, the second one's name also has its id.

    Args:
      translator: the model, the vocabulary and the settings.
      folder: an empty folder.
      dtype: type of the weights, one of CTranslate2's.

    Raises:
      UserError: CTranslate2 cannot represent the model or a setting.
    """
    check_settings(translator.config)
    model = supported_model(translator, "ctranslate2")
    check_model_config(model.config)
    positions, tokenizer = translator.config.max_positions, translator.tokenizer
    names = unique_pieces(tokenizer.source), unique_pieces(tokenizer)
    write_model(model, names, folder, dtype, positions)
    tokenizer.save(folder)
    limit = 0 if model.config.positions == "rotary" else positions
    _write_record(translator, folder, dtype, limit)


def write_model(
    model: Transformer,
    names: tuple[Sequence[str], Sequence[str]],
    folder: Path,
    dtype: str,
    positions: int,
) -> None:
    """Writes the model with its source and target vocabularies, the `names` of the ids."""
    spec = _make_spec(model, positions)
    source_names, target_names = map(list, names)
    spec.register_source_vocabulary(source_names)
    spec.register_target_vocabulary(target_names)
    spec.config.unk_token, spec.config.eos_token = target_names[UNKNOWN_ID], target_names[EOS_ID]
    # CTranslate2 drops BOS from sources: declare padding as BOS, since no source contains it.
    spec.config.bos_token = source_names[PADDING_ID]
    spec.config.decoder_start_token = target_names[model.config.start_id]
    spec.config.add_source_eos = model.config.source_end
    spec.config.layer_norm_epsilon = model.config.norm_epsilon
    spec.validate()
    _convert_dtype(spec, dtype)
    spec.save(str(folder))


def check_model_config(config: ModelConfig) -> None:
    """Raises `UserError` unless CTranslate2 can represent such a Transformer."""
    width = config.d_model // config.num_heads
    allowed: dict[str, Collection[Any]] = {
        "feed_forward": ("feed_forward",),
        "activation": _ACTIVATIONS,
        "positions": ("sinusoidal", "learned", "rotary", "none"),
        "self_attention_radius": (0,),
        "d_k": (0, width),
        "d_v": (0, width),
        # The bias is added to the position encodings, which rotary models lack.
        "source_bias": (False,) if config.positions == "rotary" else (False, True),
    }
    check_config(config, "ctranslate2", allowed)


def _make_spec(model: Transformer, positions: int) -> specs.TransformerSpec:
    """Returns CTranslate2's form of the model, with position tables of `positions` rows."""
    config, (encoder_depth, decoder_depth) = model.config, model.config.depths()
    options = dict(
        num_heads=config.num_heads,
        pre_norm=config.pre_norm,
        activation=_ACTIVATIONS[config.activation],
        layernorm_embedding=config.embedding_norm,
        rotary_dim=0 if config.positions == "rotary" else None,  # 0 = all
    )
    encoder = TransformerEncoderSpec(encoder_depth, **options)
    # The mean over all heads, like `Translator.align`.
    alignment = dict(alignment_layer=alignment_layer(decoder_depth), alignment_heads=0)
    decoder = TransformerDecoderSpec(decoder_depth, **options, **alignment)
    encoder.scale_embeddings = decoder.scale_embeddings = config.scale_embedding
    encoder.embeddings[0].weight = _array(model.source_embedding.table.embeddings)
    table = model.embedding.table
    decoder.embeddings.weight = _array(table.embeddings)
    decoder.projection.weight = decoder.embeddings.weight
    if not model.embedding.tied:
        decoder.projection.weight = _array(table.reverse_embeddings).T
    if config.softmax_bias:
        decoder.projection.bias = _array(model.embedding.bias)
    decoder.start_from_zero_embedding = not config.start_id
    if config.positions != "rotary":
        encoder_table, decoder_table = (
            _position_table(layer, config, positions)
            for layer in (model.source_positions, model.target_positions)
        )
        bias = _array(model.source_bias) if config.source_bias else 0
        encoder.position_encodings.encodings = encoder_table + bias
        decoder.position_encodings.encodings = decoder_table
    if config.embedding_norm:
        _set_norm(encoder.layernorm_embedding, model.source_norm)
        _set_norm(decoder.layernorm_embedding, model.target_norm)
    if config.pre_norm:
        _set_norm(encoder.layer_norm, model.encoder_norm)
        _set_norm(decoder.layer_norm, model.decoder_norm)
    for spec, layer in zip(encoder.layer, model.encoder, strict=True):
        _set_attention(spec.self_attention, layer.self_attention, layer.residual_1, fused=3)
        _set_feed_forward(spec.ffn, layer.feed_forward, layer.residual_2)
    for spec, layer in zip(decoder.layer, model.decoder, strict=True):
        _set_attention(spec.self_attention, layer.self_attention, layer.residual_1, fused=3)
        _set_attention(spec.attention, layer.memory_attention, layer.residual_2, fused=2)
        _set_feed_forward(spec.ffn, layer.feed_forward, layer.residual_3)
    return specs.TransformerSpec(encoder, decoder)


def _convert_dtype(spec: specs.TransformerSpec, dtype: str) -> None:
    """Converts the weights to a type; CTranslate2 itself would need PyTorch for bfloat16."""
    spec.optimize(dtype.replace("int8_bfloat16", "int8_float32").replace("bfloat16", "float32"))
    if not dtype.endswith("bfloat16"):
        return
    for name, variable in spec.variables().items():
        # A string names another variable with the same values.
        stays_float32 = isinstance(variable, str) or variable.is_scalar() or name.endswith("_scale")
        if not stays_float32 and variable.dtype == "float32":
            variable.array = variable.array.astype(tf.bfloat16.as_numpy_dtype)


def _array(weight: Any) -> np.ndarray:
    return keras.ops.convert_to_numpy(weight).astype(np.float32)


def _position_table(layer: Any, config: ModelConfig, positions: int) -> np.ndarray:
    """Returns the encodings that a layer adds, float32 [positions, d_model]."""
    numbers = np.arange(config.first_position, config.first_position + positions)
    if config.positions == "sinusoidal":
        return _array(sinusoids(numbers, config.d_model, config.sinusoids))
    if config.positions == "learned":
        return _array(layer.table)[np.minimum(numbers, config.max_positions - 1)]
    return np.zeros([positions, config.d_model], np.float32)


def _set_attention(spec: Any, layer: Any, residual: Any, fused: int) -> None:
    """Sets an attention's weights; the last `fused` of query, key and value become one matrix."""
    projections = [layer.query_projection, layer.key_projection, layer.value_projection]
    groups = [*([projection] for projection in projections[:-fused]), projections[-fused:]]
    for linear, group in zip(spec.linear, [*groups, [layer.output_projection]], strict=True):
        _set_linear(linear, group)
    _set_norm(spec.layer_norm, residual.norm)


def _set_feed_forward(spec: Any, layer: Any, residual: Any) -> None:
    _set_linear(spec.linear_0, [layer.inner])
    _set_linear(spec.linear_1, [layer.outer])
    _set_norm(spec.layer_norm, residual.norm)


def _set_linear(spec: Any, layers: Sequence) -> None:
    spec.weight = np.concatenate([_array(layer.kernel).T for layer in layers])
    if layers[0].use_bias:
        spec.bias = np.concatenate([_array(layer.bias) for layer in layers])


def _set_norm(spec: Any, layer: Any) -> None:
    spec.gamma, spec.beta = _array(layer.gamma), _array(layer.beta)


def unique_pieces(tokenizer: Tokenizer) -> list[str]:
    """Returns a name for each id: its piece, with the id added if an earlier id has that piece."""
    names: dict[str, int] = {}
    for number in range(tokenizer.vocab_size):
        [name] = tokenizer.pieces([number])
        while not name or name in names:
            name += f"<{number}>"
        names[name] = number
    return list(names)


def _write_record(translator: Translator, folder: Path, dtype: str, positions: int) -> None:
    """Writes the record of an export: its run, its settings and its checkpoint."""
    problem, config = translator.problem, translator.models[0].config
    if not problem.name:
        raise UserError(
            "A model for CTranslate2 needs a registered problem, which defines how lines are read: "
            "give Translator a problem, such as t2t.problem('parallel_text', ...).",
            code="unregistered_problem",
        )
    run_config = translator.run_config
    if run_config is None:
        fields = dataclasses.fields(HParams)
        hparams = {
            field.name: getattr(config, field.name)
            for field in fields
            if hasattr(config, field.name)
        }
        run_config = RunConfig(problem, HParams(**hparams), tokenizer=translator.tokenizer)
    decoding = dataclasses.asdict(translator.config)
    export = dict(dtype=dtype, positions=positions, decoding=decoding)
    content = {**run_config.content(), **export, "checkpoint": translator.checkpoint_identity}
    write_json(folder / RECORD_FILE, content)
