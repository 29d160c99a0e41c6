"""The weights of a run for text with another vocabulary: old rows become those of new pieces."""

import re
from collections.abc import Mapping, Sequence

import keras
import numpy as np

from t2t_keras.errors import UserError
from t2t_keras.layers import SharedEmbedding
from t2t_keras.special_ids import UNKNOWN_ID
from t2t_keras.text.sentence_pieces import SentencePieceTokenizer
from t2t_keras.training.checkpoints.run_checkpoints import other_hyperparameters
from t2t_keras.training.run_config import RunConfig
from t2t_keras.training.trained_parts import name_in

_SOURCE, _TARGET = "source embeddings", "target embeddings"
_SOFTMAX, _BIAS = "softmax matrix", "softmax bias"
# What they are called in a `Transformer`, where one matrix may be for both sides or each has one.
_SIDE = re.compile("(source|target)_(?=embedding/)")
_KINDS = {
    "embedding/table/embeddings": _TARGET,
    "embedding/table/reverse_embeddings": _SOFTMAX,
    "embedding/bias": _BIAS,
}


def adapted_weights(
    weights: Mapping[str, np.ndarray],
    model: keras.Model,
    config: RunConfig,
    other: RunConfig,
    path: str,
) -> dict[str, np.ndarray]:
    """Returns the weights for a run with another vocabulary; prints how many rows could be kept.

    Of embeddings, softmax and its bias, a piece that both vocabularies have keeps its row; that of
    a new piece is the mean of the rows of the old pieces that spell it. What was shared may have
    been divided, by hyperparameters or for two vocabularies. All other weights stay as they are.

    Args:
      weights: of the other run, by name.
      model: what is trained.
      config: the run that begins.
      other: the other.
      path: of its checkpoint, for errors.

    Raises:
      UserError: a vocabulary is not SentencePiece's or of symbols, the decoder starts with a piece
        that is not there, or the weights do not fit.
    """
    _check(config, other)
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
    new, before = config.tokenizer, other.tokenizer
    target, shared = before.spell(new)
    if start := config.hparams.start_id:
        target[start] = [other.hparams.start_id]
    source, shared_source = target, shared
    one = new.source is new and before.source is before
    if not one:
        source, shared_source = before.source.spell(new.source)
    for kind, name in ours.items():
        spelled, value = source if kind == _SOURCE else target, values[kind]
        rest[name] = _means(value.T, spelled).T if kind == _SOFTMAX else _means(value, spelled)
    sides = [("Vocabulary", target, shared)]
    if not one:
        sides = [("Source", source, shared_source), ("Target", target, shared)]
    for side, spelled, kept in sides:
        print(
            f"{side}: of {len(spelled):,} pieces {kept:,} keep their rows, {len(spelled) - kept:,} "
            f"get the means of those of their old pieces."
        )
    return rest


def _check(config: RunConfig, other: RunConfig) -> None:
    for each in (config, other):
        if not each.problem.is_plain_text:
            raise UserError(
                f"--adapt_vocabulary is for plain text: of {each.problem.name}, ids are symbols.",
                code="not_text",
            )
        for tokenizer in (each.tokenizer.source, each.tokenizer):
            if not isinstance(tokenizer, SentencePieceTokenizer):
                raise UserError(
                    f"--adapt_vocabulary needs SentencePiece vocabularies, got a "
                    f"{tokenizer.suffix} file.",
                    code="other_vocabulary_kind",
                )
    start = other.hparams.start_id
    [piece] = other.tokenizer.pieces([start])
    # Text that can be spelled in bytes never has the unknown id, so that its row is free.
    fits = start if start <= UNKNOWN_ID else config.tokenizer.vocabulary().get(piece, UNKNOWN_ID)
    if config.hparams.start_id != fits:
        raise UserError(
            f"--adapt_vocabulary: expected start_id={fits} for a decoder that starts with {piece}, "
            f"got {config.hparams.start_id}. Give --hparams=start_id={fits}.",
            code="bad_value",
        )


def _rows(model: keras.Model) -> dict[str, str]:
    """Returns the names of the weights with a row, of the softmax matrix a column, for each id."""
    embedding = getattr(model, "embedding", None)
    if not isinstance(embedding, SharedEmbedding):
        raise UserError(
            f"--adapt_vocabulary does not know where {type(model).__name__} has its embeddings: "
            f"expected a layer SharedEmbedding, as Transformer's.",
            code="not_supported",
        )
    # What Keras calls `embeddings` is the sum with a LoRA adapter, if there is one.
    found = {_TARGET: embedding.table._embeddings}
    if model.source_embedding is not embedding:
        found[_SOURCE] = model.source_embedding.table._embeddings
    if not embedding.tied:
        found[_SOFTMAX] = embedding.table.reverse_embeddings
    if embedding.bias is not None:
        found[_BIAS] = embedding.bias
    return {kind: name_in(model, weight) for kind, weight in found.items()}


def _means(rows: np.ndarray, spelled: Sequence[Sequence[int]]) -> np.ndarray:
    return np.stack([rows[ids].mean(axis=0) for ids in spelled])
