"""The weights of a run for text with another vocabulary: old rows become those of new pieces."""

from collections.abc import Sequence

import keras
import numpy as np

from t2t_keras.errors import UserError
from t2t_keras.layers import SharedEmbedding
from t2t_keras.special_ids import UNKNOWN_ID
from t2t_keras.text.sentence_pieces import SentencePieceTokenizer
from t2t_keras.training.checkpoints.run_checkpoints import load_weights, other_hyperparameters
from t2t_keras.training.run_config import RunConfig
from t2t_keras.training.trained_parts import name_in, own_weights

_SOURCE, _TARGET = "source embeddings", "target embeddings"
_SOFTMAX, _BIAS = "softmax matrix", "softmax bias"


def load_adapted_weights(
    model: keras.Model, config: RunConfig, other: RunConfig, path: str
) -> None:
    """Loads the weights of a run with another vocabulary, and prints how many rows could be kept.

    Of embeddings, softmax and its bias, a piece that both vocabularies have keeps its row; that of
    a new piece is the mean of the rows of the old pieces that spell it. What was shared may have
    been divided, by hyperparameters or for two vocabularies. All other weights are loaded as they
    are.

    Args:
      model: what is trained.
      config: the run that begins.
      other: the other.
      path: of its checkpoint.

    Raises:
      UserError: a vocabulary is not SentencePiece's or of symbols, the decoder starts with a piece
        that is not there, or the checkpoint cannot be read or does not fit.
    """
    _check(config, other)
    old = other.make_model(loaded=True)
    load_weights(old, path)
    ours, theirs = _rows(model), _rows(old)
    if whole := theirs.keys() - ours.keys():
        names = " and ".join(sorted(whole))
        raise other_hyperparameters(path, f"there, {names} are not those of another matrix")
    rest, old_rest = _others(model, ours), _others(old, theirs)
    needed, found = ({n: str([*w.shape]) for n, w in each.items()} for each in (rest, old_rest))
    if wrong := sorted({name for name, _ in needed.items() ^ found.items()}):
        shapes = (each.get(wrong[0], "not") for each in (found, needed))
        raise other_hyperparameters(
            path, "{} is {} there, {} in the model".format(wrong[0], *shapes)
        )
    for name, weight in rest.items():
        weight.assign(_value(old_rest[name]))
    values = {name: _value(weight) for name, weight in theirs.items()}
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
    for name, weight in ours.items():
        spelled, value = source if name == _SOURCE else target, values[name]
        weight.assign(_means(value.T, spelled).T if name == _SOFTMAX else _means(value, spelled))
    sides = [("Vocabulary", target, shared)]
    if not one:
        sides = [("Source", source, shared_source), ("Target", target, shared)]
    for side, spelled, kept in sides:
        print(
            f"{side}: of {len(spelled):,} pieces {kept:,} keep their rows, {len(spelled) - kept:,} "
            f"get the means of those of their old pieces."
        )


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


def _rows(model: keras.Model) -> dict[str, keras.Variable]:
    """Returns the weights that have a row, of the softmax matrix a column, for each id."""
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
    return found


def _others(model: keras.Model, rows: dict[str, keras.Variable]) -> dict[str, keras.Variable]:
    """Returns all other weights by name."""
    left = set(map(id, rows.values()))
    return {name_in(model, each): each for each in own_weights(model) if id(each) not in left}


def _value(weight: keras.Variable) -> np.ndarray:
    return keras.ops.convert_to_numpy(weight.value)


def _means(rows: np.ndarray, spelled: Sequence[Sequence[int]]) -> np.ndarray:
    return np.stack([rows[ids].mean(axis=0) for ids in spelled])
