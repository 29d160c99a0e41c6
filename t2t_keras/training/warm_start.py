"""First weights from another run, and which weights are trained."""

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
from t2t_keras.training.checkpoint_files import (
    checkpoint_at,
    named_alternative,
)
from t2t_keras.training.checkpoints import assign_weights, other_hyperparameters, read_weights
from t2t_keras.training.run_config import RunConfig
from t2t_keras.training.trained_parts import name_in

_IN_LAYER = re.compile(r"(encoder|decoder)_(\d+)/(.*)")


def layers_to_keep(count: int, of: int) -> list[int]:
    """Returns which layers a model of `count` takes of one with more: evenly spread, the first too.

    With more than one, the last as well (Shleifer and Rush, 2020: "Pre-trained Summarization
    Distillation", section 3).
    """
    return [round(number * (of - 1) / max(count - 1, 1)) for number in range(count)]


def fewer_layers(
    weights: Mapping[str, np.ndarray], config: RunConfig, other: RunConfig, path: str
) -> dict[str, np.ndarray]:
    """Returns the weights for a run with as many or fewer layers; prints which layers are kept.

    Args:
      weights: of the other run, by name.
      config: the run that begins.
      other: the other.
      path: of its checkpoint, for errors.

    Raises:
      UserError: the run that begins has more layers than there are.
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
    left = {}
    for name, array in weights.items():
        if in_layer := _IN_LAYER.fullmatch(name):
            stack, number, rest = in_layer.groups()
            if int(number) not in kept[stack]:
                continue
            name = f"{stack}_{kept[stack].index(int(number))}/{rest}"
        left[name] = array
    return left


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


# What weights mean, where their shapes do not show it.
_MEANINGS = (
    *("num_heads", "activation", "positions", "sinusoids", "first_position", "start_id"),
    *("scale_embedding", "norm_epsilon", "source_end"),
)


def other_meanings(
    ours: HParams, theirs: HParams, is_adapted: bool = False
) -> tuple[str, str] | None:
    """Returns what gives a run's weights another meaning than another's, as both have it.

    Args:
      ours: hyperparameters of the run.
      theirs: those of the other.
      is_adapted: whether the other has another vocabulary, whose ids say nothing of this one's.

    Returns:
      Settings, as "num_heads=4,activation=relu", here and there; None if no meaning differs.
    """
    here, there = ours.config(), theirs.config()
    compared = [name for name in _MEANINGS if name != "start_id" or not is_adapted]
    wrong = [name for name in compared if here[name] != there[name]]
    given, needed = (
        ",".join(f"{name}={values[name]}" for name in wrong) for values in (here, there)
    )
    return (given, needed) if wrong else None


def load_first_weights(
    model: keras.Model,
    config: RunConfig,
    source: str,
    adapt_vocabulary: bool = False,
    drop_layers: bool = False,
) -> None:
    """Loads the weights of another run, with which a training starts.

    Args:
      model: what is trained.
      config: the run that begins.
      source: the other, or a checkpoint in it.
      adapt_vocabulary: whether it may have another vocabulary; see `adapted_weights`.
      drop_layers: whether it may have more layers; see `fewer_layers`.

    Raises:
      UserError: there is none, or its ids or weights mean something else than those of `config`.
    """
    path = checkpoint_at(source)
    directory = Path(path).parent
    is_adapted = False
    if RunConfig.exists(directory):
        other = RunConfig.load(directory)
        ours, theirs = config.vocabulary.checksum, other.vocabulary.checksum
        is_adapted = adapt_vocabulary and theirs != ours
        if theirs != ours and not is_adapted:
            raise UserError(
                f"--warm_start_from={source}: expected vocabulary {ours[:12]}, that of this data, "
                f"got {theirs[:12]}. Make the data with "
                f"--problem_config={same_vocabulary(directory, other.vocabulary)}; or give "
                f"--adapt_vocabulary, and new pieces begin as the means of old ones.",
                code="other_vocabulary",
            )
        if differ := other_meanings(config.hparams, other.hparams, is_adapted):
            given, needed = differ
            raise UserError(
                f"--warm_start_from={source}: its weights have another meaning with {given}. Give "
                f"--hparams={needed}.",
                code="other_model",
            )
    elif adapt_vocabulary or drop_layers:
        flag, what = "adapt_vocabulary", "vocabulary"
        if drop_layers:
            flag, what = "drop_layers", "hyperparameters"
        raise UserError(
            f"--{flag}: expected a run, with its {what}, in {directory}.", code="no_run"
        )
    with named_alternative(path):
        weights = read_weights(path)
    if is_adapted:
        weights = adapted_weights(weights, model, config, other, path)
    elif drop_layers:
        weights = fewer_layers(weights, config, other, path)
    assign_weights(model, weights, path)
    print(f"Starting from the weights of {path}.")
