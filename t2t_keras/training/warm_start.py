"""Warm start: initial weights from another run, maybe with fewer layers or a new vocabulary."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import keras
import numpy as np

from t2t_keras.errors import UserError
from t2t_keras.hyperparameters import HParams
from t2t_keras.layers import SharedEmbedding
from t2t_keras.special_ids import UNKNOWN_ID
from t2t_keras.text.tokenizer import SentencePieceTokenizer, vocabulary_settings
from t2t_keras.training.checkpoint_files import checkpoint_at, read, suggest_intact
from t2t_keras.training.checkpoints import (
    WEIGHTS,
    assign_weights,
    different_hparams_error,
    name_in,
    weights_of,
)
from t2t_keras.training.run_config import RunConfig

# Hyperparameters that change the meaning of weights, but not their shapes.
_MEANING_HPARAMS = (
    *("num_heads", "activation", "positions", "sinusoids", "first_position", "start_id"),
    *("scale_embedding", "norm_epsilon", "source_end"),
)
_LAYER_WEIGHT = re.compile(r"(encoder|decoder)_(\d+)/(.*)")
_SOURCE, _TARGET = "source embeddings", "target embeddings"
_SOFTMAX, _BIAS = "softmax matrix", "softmax bias"
# Prefixes of weight names in a `Transformer`, if each side has its own matrix.
_SIDE_PREFIX = re.compile("(source|target)_(?=embedding/)")
_KIND_BY_NAME = {
    "embedding/table/embeddings": _TARGET,
    "embedding/table/reverse_embeddings": _SOFTMAX,
    "embedding/bias": _BIAS,
}


def warm_start(
    model: keras.Model,
    config: RunConfig,
    source: str,
    adapt_vocabulary: bool = False,
    drop_layers: bool = False,
) -> None:
    """Loads the weights of another run as initial weights.

    Args:
      model: the model to train.
      config: the new run.
      source: the run that the weights come from, or a checkpoint in it.
      adapt_vocabulary: whether that run's vocabulary may differ; see `transfer_vocabulary`.
      drop_layers: whether that run may have more layers; see `drop_layers_of`.

    Raises:
      UserError: there is no such run, or its vocabulary or hyperparameters do not suit `config`.
    """
    path = checkpoint_at(source)
    directory = Path(path).parent
    new_vocabulary = False
    if RunConfig.exists(directory):
        other_run = RunConfig.load(directory)
        new_checksum, old_checksum = config.vocabulary.checksum, other_run.vocabulary.checksum
        new_vocabulary = adapt_vocabulary and old_checksum != new_checksum
        if old_checksum != new_checksum and not new_vocabulary:
            raise UserError(
                f"--warm_start_from={source}: expected this data's vocabulary {new_checksum[:12]}, "
                f"got {old_checksum[:12]}. Make the data with "
                f"--problem_config={vocabulary_settings(directory, other_run.vocabulary)}; or give "
                f"--adapt_vocabulary, so that new pieces start as means of old ones.",
                code="other_vocabulary",
            )
        if mismatch := incompatible_hparams(config.hparams, other_run.hparams, new_vocabulary):
            new_settings, old_settings = mismatch
            raise UserError(
                f"--warm_start_from={source}: its weights do not suit {new_settings}. Give "
                f"--hparams={old_settings}.",
                code="other_model",
            )
    elif adapt_vocabulary or drop_layers:
        flag, content = "adapt_vocabulary", "vocabulary"
        if drop_layers:
            flag, content = "drop_layers", "hyperparameters"
        raise UserError(
            f"--{flag}: expected a run, with its {content}, in {directory}.", code="no_run"
        )
    with suggest_intact(path):
        arrays, _ = read(path, WEIGHTS)
    weights = weights_of(arrays)
    if new_vocabulary:
        weights = transfer_vocabulary(weights, model, config, other_run, path)
    elif drop_layers:
        weights = drop_layers_of(weights, config, other_run, path)
    assign_weights(model, weights, path)
    print(f"Starting from the weights of {path}.")


def incompatible_hparams(
    new: HParams, old: HParams, new_vocabulary: bool = False
) -> tuple[str, str] | None:
    """Returns the hyperparameters that give the weights of two runs different meanings.

    With a `new_vocabulary`, start_id is not compared.

    Returns:
      The differing settings of the new and the old run, such as "num_heads=4,activation=relu"; None
      if there are none.
    """
    new_values, old_values = new.config(), old.config()
    names = [
        name
        for name in _MEANING_HPARAMS
        if new_values[name] != old_values[name] and not (name == "start_id" and new_vocabulary)
    ]
    new_settings, old_settings = (
        ",".join(f"{name}={values[name]}" for name in names) for values in (new_values, old_values)
    )
    return (new_settings, old_settings) if names else None


def layers_to_keep(count: int, total: int) -> list[int]:
    """Returns the numbers of `count` out of `total` layers, evenly spread.

    They include the first layer and, if `count` is above 1, the last (Shleifer and Rush, 2020:
    "Pre-trained Summarization Distillation", section 3).
    """
    return [round(number * (total - 1) / max(count - 1, 1)) for number in range(count)]


def drop_layers_of(
    weights: Mapping[str, np.ndarray], config: RunConfig, other: RunConfig, path: str
) -> dict[str, np.ndarray]:
    """Returns the weights without surplus layers, renumbered; prints which layers are kept.

    Args:
      weights: weights by name.
      config: the new run.
      other: the run that the weights come from.
      path: the checkpoint of the weights, for errors.

    Raises:
      UserError: the new run has more layers than the other.
    """
    layers: dict[str, Sequence[int]] = {}
    for stack, new_depth, old_depth in zip(
        ("encoder", "decoder"), config.hparams.depths(), other.hparams.depths(), strict=True
    ):
        if new_depth > old_depth:
            reason = f"it has {old_depth} layers in the {stack}, expected at least {new_depth}"
            raise different_hparams_error(path, reason)
        layers[stack] = layers_to_keep(new_depth, old_depth)
    numbers = (f"{stack} {', '.join(map(str, layers[stack]))}" for stack in layers)
    print(f"Layers kept, from 0: {'; '.join(numbers)}.")
    remaining = {}
    for name, array in weights.items():
        if match := _LAYER_WEIGHT.fullmatch(name):
            stack, number, weight_name = match.groups()
            if int(number) not in layers[stack]:
                continue
            name = f"{stack}_{layers[stack].index(int(number))}/{weight_name}"
        remaining[name] = array
    return remaining


def transfer_vocabulary(
    weights: Mapping[str, np.ndarray],
    model: keras.Model,
    config: RunConfig,
    other: RunConfig,
    path: str,
) -> dict[str, np.ndarray]:
    """Returns the weights for a run with another vocabulary; prints the number of kept rows.

    In embeddings, softmax and its bias, pieces of both vocabularies keep their rows; the row of a
    new piece is the mean of the rows of the old pieces that spell it. The new run may have separate
    matrices where the old one shared them. All other weights stay unchanged.

    Args:
      weights: weights by name.
      model: the model to train.
      config: the new run.
      other: the run that the weights come from.
      path: the checkpoint of the weights, for errors.

    Raises:
      UserError: a vocabulary is not SentencePiece's, the decoder starts with a piece that is
        missing, or the weights do not fit.
    """
    new_source, new_target = _sentencepiece_pair(config)
    old_source, old_target = _sentencepiece_pair(other)
    _check_start(config, other)
    name_by_kind = _embedding_names(model)
    kind_by_name = {name: kind for kind, name in name_by_kind.items()}
    arrays, new_weights = dict[str, np.ndarray](), dict[str, np.ndarray]()
    for name, array in weights.items():
        kind = kind_by_name.get(name) or _KIND_BY_NAME.get(_SIDE_PREFIX.sub("", name, count=1))
        if kind == _TARGET and name.startswith("source_"):
            kind = _SOURCE
        (arrays if kind else new_weights)[kind or name] = array
    if separate := arrays.keys() - name_by_kind.keys():
        names = " and ".join(sorted(separate))
        raise different_hparams_error(path, f"it has separate weights for {names}")
    arrays.setdefault(_SOURCE, arrays[_TARGET])
    arrays.setdefault(_SOFTMAX, arrays[_TARGET].T)
    arrays.setdefault(_BIAS, np.zeros(len(arrays[_TARGET]), np.float32))
    target, num_target = old_target.spell(new_target)
    if start := config.hparams.start_id:
        target[start] = [other.hparams.start_id]
    sides = [("Vocabulary", target, num_target)]
    source = target
    if new_source is not new_target or old_source is not old_target:
        source, num_source = old_source.spell(new_source)
        sides = [("Source", source, num_source), ("Target", target, num_target)]
    for kind, name in name_by_kind.items():
        spellings, array = source if kind == _SOURCE else target, arrays[kind]
        is_softmax = kind == _SOFTMAX
        means = _mean_rows(array.T if is_softmax else array, spellings)
        new_weights[name] = means.T if is_softmax else means
    for side, spellings, num_kept in sides:
        print(
            f"{side}: of {len(spellings):,} pieces, {num_kept:,} keep their rows, and "
            f"{len(spellings) - num_kept:,} start as means of the old pieces that spell them."
        )
    return new_weights


def _sentencepiece_pair(config: RunConfig) -> list[SentencePieceTokenizer]:
    """Returns source and target vocabulary; raises `UserError` unless both are SentencePiece's."""
    if not config.problem.is_plain_text:
        raise UserError(
            f"--adapt_vocabulary is for plain text, but the ids of {config.problem.name} are "
            f"symbols. Leave it out.",
            code="not_text",
        )
    tokenizers = []
    for tokenizer in (config.vocabulary.source, config.vocabulary):
        if not isinstance(tokenizer, SentencePieceTokenizer):
            raise UserError(
                f"--adapt_vocabulary needs SentencePiece vocabularies, got a {tokenizer.suffix} "
                f"file.",
                code="other_vocabulary_kind",
            )
        tokenizers.append(tokenizer)
    return tokenizers


def _check_start(config: RunConfig, other: RunConfig) -> None:
    """Raises `UserError` unless the decoders of both runs start with the same piece."""
    start = other.hparams.start_id
    [piece] = other.vocabulary.pieces([start])
    # The unknown id replaces a missing piece: text that is spelled in bytes never contains it.
    ids = config.vocabulary.vocabulary()
    expected = start if start <= UNKNOWN_ID else ids.get(piece, UNKNOWN_ID)
    if config.hparams.start_id != expected:
        raise UserError(
            f"--adapt_vocabulary: expected start_id={expected} for a decoder that starts with "
            f"{piece}, got {config.hparams.start_id}. Give --hparams=start_id={expected}.",
            code="bad_value",
        )


def _embedding_names(model: keras.Model) -> dict[str, str]:
    """Returns the names of weights with a row (in the softmax a column) for each id, by kind."""
    embedding = getattr(model, "embedding", None)
    if not isinstance(embedding, SharedEmbedding):
        raise UserError(
            f"--adapt_vocabulary cannot find the embeddings of {type(model).__name__}: expected an "
            f"attribute `embedding` of class SharedEmbedding, as in Transformer.",
            code="not_supported",
        )
    # Keras's `embeddings` would include a LoRA adapter.
    weights = {_TARGET: embedding.table._embeddings}
    if model.source_embedding is not embedding:
        weights[_SOURCE] = model.source_embedding.table._embeddings
    if not embedding.tied:
        weights[_SOFTMAX] = embedding.table.reverse_embeddings
    if embedding.bias is not None:
        weights[_BIAS] = embedding.bias
    return {kind: name_in(model, weight) for kind, weight in weights.items()}


def _mean_rows(rows: np.ndarray, spellings: Sequence[Sequence[int]]) -> np.ndarray:
    return np.stack([rows[ids].mean(axis=0) for ids in spellings])
