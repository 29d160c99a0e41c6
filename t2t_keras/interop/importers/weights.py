"""Converts another toolkit's weights and vocabularies to our names and ids."""

import dataclasses
import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from t2t_keras.errors import UserError, translated_errors
from t2t_keras.interop.tokenizers import BOUNDARY, LookedUpPieces, WordTokenizer
from t2t_keras.io.files import read_bounded
from t2t_keras.special_ids import EOS_ID, PADDING_ID, SPACE, UNKNOWN_ID
from t2t_keras.text.tokenizer import SentencePieceTokenizer, Tokenizer, parsed_model

# Logit of ids that a model must never generate: low enough for a probability of 0 in float32, but
# finite, because label smoothing takes the mean of all logits.
NEVER_LOGIT = -100.0


@dataclasses.dataclass(frozen=True)
class IdOrder:
    """Maps another toolkit's ids to ours: padding, end, unknown, then all others in their order.

    Attributes:
      pieces: the pieces, by the toolkit's ids.
      end: the toolkit's id of EOS.
      unknown: the toolkit's id of unknown words.
      padding: the toolkit's id of padding; None = there is none.
      has_start: whether decoding starts with padding whose row is not zeros; then our last id has
        that row.
    """

    pieces: Sequence[str]
    end: int
    unknown: int
    padding: int | None = None
    has_start: bool = False

    @functools.cached_property
    def _rows(self) -> list[int]:
        special = (self.end, self.unknown, self.padding)
        ordinary = (i for i in range(len(self.pieces)) if i not in special)
        start = [self.padding] if self.has_start and self.padding is not None else []
        return [self.end, self.unknown, *ordinary, *start]

    @property
    def our_pieces(self) -> list[str]:
        """The pieces by our ids."""
        pieces = ["<pad>", *(self.pieces[i] for i in self._rows)]
        return [*pieces[:-1], "<start>"] if self.has_start else pieces

    def rows(self, matrix: np.ndarray) -> np.ndarray:
        """Returns rows in the order of our ids; the row of padding is zeros."""
        return np.concatenate([np.zeros_like(matrix[:1]), matrix[self._rows]])

    def bias(self, bias: np.ndarray) -> np.ndarray:
        """Returns the bias of logits in the order of our ids; never allows padding and start."""
        reordered = self.rows(bias)
        reordered[[0, *[-1] * self.has_start]] = NEVER_LOGIT
        return reordered


def pieces_by_id(ids: Mapping[str, int], origin: str) -> list[str]:
    """Returns the pieces of a vocabulary in the order of their ids.

    Raises:
      UserError: the ids are not consecutive numbers from 0.
    """
    text, damage = (
        f"{origin}: expected an id for each piece",
        (OverflowError, TypeError, ValueError),
    )
    with translated_errors(damage, text, code="not_a_vocabulary"):
        pieces = {int(i): piece for piece, i in ids.items()}
        "".join(ids).encode()  # JSON may hold lone surrogates; UTF-8 may not.
    if missing := set(range(len(ids))) - pieces.keys():
        raise UserError(
            f"{origin}: expected ids from 0 to {len(ids) - 1}, but {min(missing)} is missing.",
            code="not_a_vocabulary",
        )
    return [pieces[i] for i in range(len(ids))]


def embedding_weights(
    source: np.ndarray,
    target: np.ndarray,
    projection: np.ndarray,
    bias: np.ndarray | None = None,
    *,
    same_inputs: bool,
    tied: bool,
) -> tuple[str, dict[str, np.ndarray]]:
    """Returns `share_embeddings`, and the weights of embeddings and softmax by our paths.

    Args:
      source: [source_vocab_size, d_model].
      target: [vocab_size, d_model].
      projection: to the logits, [vocab_size, d_model].
      bias: added to the logits, [vocab_size]; None = no bias.
      same_inputs: whether source and target share a matrix.
      tied: whether target embedding and projection share a matrix.
    """
    sharing = {(True, True): "all", (True, False): "input", (False, True): "target"}
    name = "embedding" if same_inputs else "target_embedding"
    weights = {f"{name}/table/embeddings": target}
    if not same_inputs:
        weights["source_embedding/table/embeddings"] = source
    if not tied:
        weights[f"{name}/table/reverse_embeddings"] = projection.T
    if bias is not None:
        weights[f"{name}/bias"] = bias
    return sharing.get((same_inputs, tied), "none"), weights


def reordered_embeddings(
    orders: Sequence[IdOrder],
    source: np.ndarray,
    target: np.ndarray,
    projection: np.ndarray,
    bias: np.ndarray | None,
    same_pieces: bool,
) -> tuple[str, dict[str, np.ndarray]]:
    """Like `embedding_weights`, for rows by the toolkit's ids; equal matrices count as shared.

    Args:
      orders: orders of the ids of source and target.
      source: see `embedding_weights`.
      target: see `embedding_weights`.
      projection: see `embedding_weights`.
      bias: added to the logits, of any shape; None = zeros.
      same_pieces: whether source and target have the same pieces.
    """
    bias = np.zeros(len(target), np.float32) if bias is None else bias.reshape(-1)
    return embedding_weights(
        orders[0].rows(source),
        orders[1].rows(target),
        orders[1].rows(projection),
        orders[1].bias(bias),
        same_inputs=same_pieces and np.array_equal(source, target),
        tied=np.array_equal(projection, target),
    )


def check_size(
    size: int, pieces: Sequence[str], file: str | Path, model: str | Path, num_unlisted: int
) -> None:
    """Raises `UserError` unless there are `size` pieces, `num_unlisted` of them not in `file`."""
    if len(pieces) != size:
        raise UserError(
            f"{file} is not the vocabulary of {model}: expected {size - num_unlisted:,} lines, got "
            f"{len(pieces) - num_unlisted:,}.",
            code="other_vocabulary",
        )


_SUBLAYERS = ("self_attention", "memory_attention", "feed_forward")
_PARTS = ("query", "key", "value", "output", "inner", "outer")


class WeightNames:
    """A toolkit's names for weights, as templates such as "{side}.layers.{layer}.{part}.{dense}".

    Args:
      weights: templates of kernels and biases; those without {sublayer} belong to the
        feed-forward network.
      norms: templates of gamma and beta in the sub-layers' normalisation.
      other_paths: our paths of other weights, by template; {input} becomes "source" or "target".
      sublayers: words for self-attention, attention to the memory, and feed-forward network.
      parts: words for query, key, value, output, and the two layers of the feed-forward network.
      dense: words for kernel and bias.
      norm: words for gamma and beta.
      first_layer: number of the first layer.
      outputs_first: whether matrices are [outputs, inputs].
    """

    def __init__(
        self,
        weights: Sequence[str],
        norms: Sequence[str],
        other_paths: Mapping[str, str],
        *,
        sublayers: Sequence[str],
        parts: Sequence[str],
        dense: Sequence[str] = ("kernel", "bias"),
        norm: Sequence[str],
        first_layer: int = 0,
        outputs_first: bool = False,
    ):
        self._words = {
            "side": {"encoder": "encoder", "decoder": "decoder"},
            "sublayer": dict(zip(sublayers, _SUBLAYERS, strict=True)),
            "part": dict(zip(parts, _PARTS, strict=True)),
            "dense": dict(zip(dense, ("kernel", "bias"), strict=True)),
            "norm": dict(zip(norm, ("gamma", "beta"), strict=True)),
        }
        paths = dict.fromkeys(weights, "{side}_{layer}/{sublayer}/{part}/{dense}")
        paths |= dict.fromkeys(norms, "{side}_{layer}/residual_{residual}/norm/{norm}")
        paths |= other_paths
        self._paths = [(self._pattern(template), path) for template, path in paths.items()]
        self._first_layer, self._outputs_first = first_layer, outputs_first

    def _pattern(self, template: str) -> re.Pattern[str]:
        pattern = re.escape(template).replace(r"\{layer\}", r"(?P<layer>\d+)")
        for kind, words in self._words.items():
            choice = "|".join(map(re.escape, words))
            pattern = pattern.replace(rf"\{{{kind}\}}", f"(?P<{kind}>{choice})")
        return re.compile(pattern)

    def _path(self, name: str) -> str | None:
        """Returns our path of a weight, or None."""
        for pattern, path in self._paths:
            if match := pattern.fullmatch(name):
                groups = match.groupdict()
                layer = int(groups.pop("layer", self._first_layer)) - self._first_layer
                values = {"sublayer": _SUBLAYERS[-1]}
                values |= {kind: self._words[kind][word] for kind, word in groups.items()}
                is_encoder = values["side"] == "encoder"
                sublayers = [_SUBLAYERS[0], _SUBLAYERS[2]] if is_encoder else _SUBLAYERS
                if values["sublayer"] not in sublayers:
                    return None
                residual = 1 + sublayers.index(values["sublayer"])
                side = "source" if is_encoder else "target"
                return path.format(**values, layer=layer, residual=residual, input=side)
        return None

    def weights(self, named: Mapping[str, np.ndarray], origin: str | Path) -> dict[str, np.ndarray]:
        """Returns weights by our paths; raises `UserError` for a weight without a path."""
        weights = {}
        for name, value in named.items():
            if (path := self._path(name)) is None:
                raise UserError(
                    f"{origin}: the weight {name} has no counterpart here.", code="unknown_weight"
                )
            if path.endswith("/kernel"):
                value = value.T if self._outputs_first else value
            elif not path.endswith("/table"):
                value = value.reshape(-1)  # Marian's vectors are matrices of one row.
            weights[path] = value
        return weights


def pytorch_names(side: str, other_paths: Mapping[str, str]) -> WeightNames:
    """Returns the names of weights that models of fairseq and Hugging Face share."""
    layer = f"{side}.layers.{{layer}}."
    return WeightNames(
        [f"{layer}{{sublayer}}.{{part}}.{{dense}}", f"{layer}{{part}}.{{dense}}"],
        [f"{layer}{{sublayer}}_layer_norm.{{norm}}"],
        other_paths,
        sublayers=("self_attn", "encoder_attn", "final"),
        parts=("q_proj", "k_proj", "v_proj", "out_proj", "fc1", "fc2"),
        dense=("weight", "bias"),
        norm=("weight", "bias"),
        outputs_first=True,
    )


def vocabulary_files(vocabulary: str | Path) -> tuple[list[Path], list[Path]]:
    """Splits comma-separated files into SentencePiece models and other files."""
    return split_files([Path(file.strip()) for file in str(vocabulary).split(",") if file.strip()])


def split_files(files: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """Splits files into SentencePiece models and other files."""
    segmenters = [file for file in files if file.suffix in (".model", ".spm")]
    return segmenters, [file for file in files if file not in segmenters]


def make_tokenizer(
    source: Sequence[str], target: Sequence[str], models: Sequence[Path], origin: str | Path
) -> Tokenizer:
    """Returns the tokenizer of a model whose toolkit takes text that is already segmented.

    Args:
      source: pieces by our ids; padding, EOS and unknown are 0, 1 and 2.
      target: likewise; equal pieces with the same model become one shared vocabulary.
      models: SentencePiece models that segment text: one, or those of source and target; () = text
        is segmented already, and pieces are words.
      origin: file of the pieces, for errors.

    Raises:
      UserError: pieces of SentencePiece have no model, or the model cannot be read.
    """
    if not models and any(piece.startswith(SPACE) for piece in (*source, *target)):
        raise UserError(
            f"{origin} has pieces of SentencePiece: add their .model file to --vocabulary.",
            code="no_vocabulary",
        )

    def load(pieces: Sequence[str], model: Path | None) -> Tokenizer:
        if model is None:
            return WordTokenizer.of(pieces)
        return lookup_tokenizer(read_bounded(model), pieces, model)

    source_model, target_model = (models[0], models[-1]) if models else (None, None)
    tokenizer = load(target, target_model)
    is_shared = list(source) == list(target) and source_model == target_model
    return tokenizer if is_shared else tokenizer.with_source(load(source, source_model))


def lookup_tokenizer(
    model_bytes: bytes, pieces: Sequence[str], origin: str | Path
) -> SentencePieceTokenizer:
    """Returns a tokenizer that divides text by a SentencePiece model and looks up the pieces' ids.

    Characters that the model does not know are looked up too; pieces that are not listed are
    unknown. All listed pieces can be decoded.

    Args:
      model_bytes: a `.model` or `.spm` file.
      pieces: the listed pieces by our ids; padding, EOS and unknown are 0, 1 and 2.
      origin: the file, for errors.

    Raises:
      UserError: the file is not a SentencePiece model, or does not match the pieces.
    """
    text = f"{origin} is not a SentencePiece model"
    with translated_errors(Exception, text, code="not_sentencepiece"):
        model = parsed_model(model_bytes)
    normal_pieces = {piece.piece for piece in model.pieces if piece.type == piece.NORMAL}
    _check_pieces(normal_pieces, pieces[UNKNOWN_ID + 1 :], origin)
    types = type(model).SentencePiece
    remaining = {piece.piece: piece for piece in model.pieces}
    lowest_score = min((piece.score for piece in model.pieces), default=0.0)
    del model.pieces[:]
    special = {PADDING_ID: types.CONTROL, EOS_ID: types.CONTROL, UNKNOWN_ID: types.UNKNOWN}
    used_ids = set()
    for i, text in enumerate(pieces):
        # A special piece such as "<unk>" may also be a piece of text.
        text = f"{text}#{i}" if text in used_ids else text
        used_ids.add(text)
        known_piece = remaining.pop(text, None)
        if i in special:
            model.pieces.add(piece=text, score=0.0, type=special[i])
        elif text.startswith(">>") and text.endswith("<<"):
            # A target language, at the start of a text.
            model.pieces.add(piece=f"\u2581{text}", score=0.0, type=types.USER_DEFINED)
        elif known_piece is not None and known_piece.type != types.UNKNOWN:
            model.pieces.add().CopyFrom(known_piece)
        else:
            model.pieces.add(piece=text, score=lowest_score, type=types.UNUSED)
    special_types = types.CONTROL, types.UNKNOWN
    unlisted_pieces = [piece for piece in remaining.values() if piece.type not in special_types]
    tokenizer_class: type[SentencePieceTokenizer] = SentencePieceTokenizer
    if unlisted_pieces or any(piece.type == types.UNUSED for piece in model.pieces):
        tokenizer_class = LookedUpPieces
        model.pieces.add(piece=BOUNDARY, score=0.0, type=types.CONTROL)
        for piece in unlisted_pieces:
            model.pieces.add().CopyFrom(piece)
    spec = model.trainer_spec
    spec.pad_id, spec.eos_id, spec.unk_id, spec.bos_id = PADDING_ID, EOS_ID, UNKNOWN_ID, -1
    spec.pad_piece, spec.eos_piece, spec.unk_piece = pieces[:3]
    spec.vocab_size = len(model.pieces)
    return tokenizer_class(model.SerializeToString(), origin=str(origin))


def _check_pieces(model_pieces: Iterable[str], listed: Iterable[str], origin: str | Path) -> None:
    """Raises `UserError` if the listed pieces come from another model.

    A joint list also has another model's pieces; the list of one language has only some pieces of
    a joint model. So most of the smaller set must be in the larger one. With 8,000 pieces of
    Europarl, that share is 100% for the right model, and at most 58% for models of other lines or
    kinds. Single characters do not count, since most models have them.
    """
    if not model_pieces:
        raise UserError(
            f"{origin} is not a SentencePiece model: it has no pieces.", code="not_sentencepiece"
        )
    model_pieces, listed = (
        {piece for piece in side if len(piece) > 1} for side in (model_pieces, listed)
    )
    smaller_size, num_shared = min(len(model_pieces), len(listed)), len(model_pieces & listed)
    if num_shared < 0.75 * smaller_size:
        raise UserError(
            f"{origin} does not match the pieces: it has {len(model_pieces):,} pieces of "
            f"several characters, the list has {len(listed):,}, and {num_shared:,} are in both.",
            code="other_vocabulary",
        )
