"""Warm start: first weights from another run, with fewer layers or a new vocabulary on request."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import keras
import numpy as np

from t2t_keras.errors import UserError
from t2t_keras.hyperparameters import HParams
from t2t_keras.layers import SharedEmbedding
from t2t_keras.special_ids import UNKNOWN_ID
from t2t_keras.text.tokenizer import SentencePieceTokenizer, same_vocabulary
from t2t_keras.training.checkpoint_files import checkpoint_at, named_alternative
from t2t_keras.training.checkpoints import assign_weights, other_hyperparameters, read_weights
from t2t_keras.training.run_config import RunConfig
from t2t_keras.training.trained_parts import name_in

# Hyperparameters that change the meaning of weights, but not their shapes.
_MEANINGS = (
    *("num_heads", "activation", "positions", "sinusoids", "first_position", "start_id"),
    *("scale_embedding", "norm_epsilon", "source_end"),
)
_IN_LAYER = re.compile(r"(encoder|decoder)_(\d+)/(.*)")
_SOURCE, _TARGET = "source embeddings", "target embeddings"
_SOFTMAX, _BIAS = "softmax matrix", "softmax bias"
# Their names in a `Transformer`, where the sides share one matrix or each has its own.
_SIDE = re.compile("(source|target)_(?=embedding/)")
_KINDS = {
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
    """Loads the weights of another run as first weights.

    Args:
      model: the model to train.
      config: the new run.
      source: the other run, or a checkpoint in it.
      adapt_vocabulary: whether its vocabulary may differ; see `transfer_vocabulary`.
      drop_layers: whether it may have more layers; see `drop_layers_of`.

    Raises:
      UserError: there is none, or its ids or weights have another meaning than those of `config`.
    """
    path = checkpoint_at(source)
    directory = Path(path).parent
    new_vocabulary = False
    if RunConfig.exists(directory):
        other = RunConfig.load(directory)
        ours, theirs = config.vocabulary.checksum, other.vocabulary.checksum
        new_vocabulary = adapt_vocabulary and theirs != ours
        if theirs != ours and not new_vocabulary:
            raise UserError(
                f"--warm_start_from={source}: expected vocabulary {ours[:12]}, that of this data, "
                f"got {theirs[:12]}. Make the data with "
                f"--problem_config={same_vocabulary(directory, other.vocabulary)}; or give "
                f"--adapt_vocabulary, and new pieces begin as the means of old ones.",
                code="other_vocabulary",
            )
        if different := incompatible_hparams(config.hparams, other.hparams, new_vocabulary):
            requested, needed = different
            raise UserError(
                f"--warm_start_from={source}: its weights have another meaning with {requested}. "
                f"Give --hparams={needed}.",
                code="other_model",
            )
    elif adapt_vocabulary or drop_layers:
        flag, content = "adapt_vocabulary", "vocabulary"
        if drop_layers:
            flag, content = "drop_layers", "hyperparameters"
        raise UserError(
            f"--{flag}: expected a run, with its {content}, in {directory}.", code="no_run"
        )
    with named_alternative(path):
        weights = read_weights(path)
    if new_vocabulary:
        weights = transfer_vocabulary(weights, model, config, other, path)
    elif drop_layers:
        weights = drop_layers_of(weights, config, other, path)
    assign_weights(model, weights, path)
    print(f"Starting from the weights of {path}.")


def incompatible_hparams(
    ours: HParams, theirs: HParams, new_vocabulary: bool = False
) -> tuple[str, str] | None:
    """Returns the hyperparameters that give the weights of two runs different meanings.

    With a `new_vocabulary`, ids of the two runs are not comparable.

    Returns:
      Settings, as "num_heads=4,activation=relu", here and there; None if no meaning differs.
    """
    here, there = ours.config(), theirs.config()
    names = [
        name
        for name in _MEANINGS
        if here[name] != there[name] and not (name == "start_id" and new_vocabulary)
    ]
    settings = [",".join(f"{name}={values[name]}" for name in names) for values in (here, there)]
    return (settings[0], settings[1]) if names else None


def layers_to_keep(count: int, of: int) -> list[int]:
    """Returns the numbers of `count` layers out of more, evenly spread.

    The first is among them and, of several, the last (Shleifer and Rush, 2020: "Pre-trained
    Summarization Distillation", section 3).
    """
    return [round(number * (of - 1) / max(count - 1, 1)) for number in range(count)]


def drop_layers_of(
    weights: Mapping[str, np.ndarray], config: RunConfig, other: RunConfig, path: str
) -> dict[str, np.ndarray]:
    """Returns the weights for a run with as many or fewer layers; prints which layers are kept.

    Args:
      weights: of the other run, by name.
      config: the new run.
      other: the other run.
      path: of its checkpoint, for errors.

    Raises:
      UserError: the new run has more layers than the other.
    """
    kept: dict[str, Sequence[int]] = {}
    for stack, ours, theirs in zip(
        ("encoder", "decoder"), config.hparams.depths(), other.hparams.depths(), strict=True
    ):
        if ours > theirs:
            raise other_hyperparameters(path, f"it has {theirs} layers in the {stack}, not {ours}")
        kept[stack] = layers_to_keep(ours, theirs)
    numbers = (f"{stack} {', '.join(map(str, layers))}" for stack, layers in kept.items())
    print(f"Layers kept, from 0: {'; '.join(numbers)}.")
    remaining = {}
    for name, array in weights.items():
        if in_layer := _IN_LAYER.fullmatch(name):
            stack, number, rest = in_layer.groups()
            if int(number) not in kept[stack]:
                continue
            name = f"{stack}_{kept[stack].index(int(number))}/{rest}"
        remaining[name] = array
    return remaining


def transfer_vocabulary(
    weights: Mapping[str, np.ndarray],
    model: keras.Model,
    config: RunConfig,
    other: RunConfig,
    path: str,
) -> dict[str, np.ndarray]:
    """Returns the weights for a run with another vocabulary; prints how many rows are kept.

    In embeddings, softmax and its bias, pieces of both vocabularies keep their rows; the row of a
    new piece is the mean of the rows of the old pieces that spell it. Matrices that were shared may
    be divided now, by hyperparameters or for two vocabularies. All other weights stay as they are.

    Args:
      weights: of the other run, by name.
      model: the model to train.
      config: the new run.
      other: the other run.
      path: of its checkpoint, for errors.

    Raises:
      UserError: a vocabulary is not SentencePiece's, the decoder starts with a piece that is
        missing, or the weights do not fit.
    """
    new_source, new = _sentencepiece(config)
    old_source, old = _sentencepiece(other)
    _check_start(config, other)
    ours = _rows(model)
    kinds = {name: kind for kind, name in ours.items()}
    values, rest = dict[str, np.ndarray](), dict[str, np.ndarray]()
    for name, array in weights.items():
        kind = kinds.get(name) or _KINDS.get(_SIDE.sub("", name, count=1))
        if kind == _TARGET and name.startswith("source_"):
            kind = _SOURCE
        (values if kind else rest)[kind or name] = array
    if whole := values.keys() - ours.keys():
        names = " and ".join(sorted(whole))
        raise other_hyperparameters(path, f"there, {names} are not those of another matrix")
    values.setdefault(_SOURCE, values[_TARGET])
    values.setdefault(_SOFTMAX, values[_TARGET].T)
    values.setdefault(_BIAS, np.zeros(len(values[_TARGET]), np.float32))
    target, shared = old.spell(new)
    if start := config.hparams.start_id:
        target[start] = [other.hparams.start_id]
    sides = [("Vocabulary", target, shared)]
    source = target
    if new_source is not new or old_source is not old:
        source, shared_source = old_source.spell(new_source)
        sides = [("Source", source, shared_source), ("Target", target, shared)]
    for kind, name in ours.items():
        spelled, value = source if kind == _SOURCE else target, values[kind]
        rest[name] = _means(value.T, spelled).T if kind == _SOFTMAX else _means(value, spelled)
    for side, spelled, kept in sides:
        print(
            f"{side}: of {len(spelled):,} pieces {kept:,} keep their rows, {len(spelled) - kept:,} "
            f"get the means of those of their old pieces."
        )
    return rest


def _sentencepiece(config: RunConfig) -> list[SentencePieceTokenizer]:
    """Returns the vocabularies of source and target; raises `UserError` for another kind."""
    if not config.problem.is_plain_text:
        raise UserError(
            f"--adapt_vocabulary is for plain text: of {config.problem.name}, ids are symbols.",
            code="not_text",
        )
    sides = []
    for tokenizer in (config.vocabulary.source, config.vocabulary):
        if not isinstance(tokenizer, SentencePieceTokenizer):
            raise UserError(
                f"--adapt_vocabulary needs SentencePiece vocabularies, got a {tokenizer.suffix} "
                f"file.",
                code="other_vocabulary_kind",
            )
        sides.append(tokenizer)
    return sides


def _check_start(config: RunConfig, other: RunConfig) -> None:
    """Raises `UserError` unless the decoders of both runs start with the same piece."""
    start = other.hparams.start_id
    [piece] = other.vocabulary.pieces([start])
    # Text that can be spelled in bytes never has the unknown id, so that its row is free.
    fits = start if start <= UNKNOWN_ID else config.vocabulary.vocabulary().get(piece, UNKNOWN_ID)
    if config.hparams.start_id != fits:
        raise UserError(
            f"--adapt_vocabulary: expected start_id={fits} for a decoder that starts with {piece}, "
            f"got {config.hparams.start_id}. Give --hparams=start_id={fits}.",
            code="bad_value",
        )


def _rows(model: keras.Model) -> dict[str, str]:
    """Returns the names of the weights with a row (of the softmax: a column) for each id."""
    embedding = getattr(model, "embedding", None)
    if not isinstance(embedding, SharedEmbedding):
        raise UserError(
            f"--adapt_vocabulary does not know where {type(model).__name__} has its embeddings: "
            f"expected a layer SharedEmbedding, as Transformer's.",
            code="not_supported",
        )
    # What Keras calls `embeddings` is the sum with a LoRA adapter, if there is one.
    weights = {_TARGET: embedding.table._embeddings}
    if model.source_embedding is not embedding:
        weights[_SOURCE] = model.source_embedding.table._embeddings
    if not embedding.tied:
        weights[_SOFTMAX] = embedding.table.reverse_embeddings
    if embedding.bias is not None:
        weights[_BIAS] = embedding.bias
    return {kind: name_in(model, weight) for kind, weight in weights.items()}


def _means(rows: np.ndarray, spelled: Sequence[Sequence[int]]) -> np.ndarray:
    return np.stack([rows[ids].mean(axis=0) for ids in spelled])
