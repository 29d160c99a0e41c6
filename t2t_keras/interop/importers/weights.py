"""Weights of other toolkits by our names, and embeddings in the order of our ids."""

import dataclasses
import functools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from t2t_keras.errors import UserError, brief

# The logit of what is never written: its probability is 0 in float32, and label smoothing, which
# takes the mean of all logits, still works.
NEVER = -100.0


@dataclasses.dataclass(frozen=True)
class IdOrder:
    """Where another toolkit's ids stand here: padding, end, unknown, and the others as they are.

    Attributes:
      pieces: by id there.
      end: id there of the end of sentence.
      unknown: id there of unknown words.
      padding: id there of padding; None = it has none.
      start: whether the row of padding, which starts decoding, is not zeros. It becomes the last.
    """

    pieces: Sequence[str]
    end: int
    unknown: int
    padding: int | None = None
    start: bool = False

    @functools.cached_property
    def _rows(self) -> list[int]:
        special = (self.end, self.unknown, self.padding)
        others = (i for i in range(len(self.pieces)) if i not in special)
        start = [self.padding] if self.start and self.padding is not None else []
        return [self.end, self.unknown, *others, *start]

    @property
    def our_pieces(self) -> list[str]:
        """The pieces by id here."""
        pieces = ["<pad>", *(self.pieces[i] for i in self._rows)]
        return [*pieces[:-1], "<start>"] if self.start else pieces

    def rows(self, matrix: np.ndarray) -> np.ndarray:
        """Returns rows by id here of rows by id there; that of padding is zeros."""
        return np.concatenate([np.zeros_like(matrix[:1]), matrix[self._rows]])

    def bias(self, bias: np.ndarray) -> np.ndarray:
        """Returns the bias of logits, likewise; padding and the start are never written."""
        found = self.rows(bias)
        found[[0, *[-1] * self.start]] = NEVER
        return found


def pieces_by_id(ids: Mapping[str, int], origin: str) -> list[str]:
    """Returns the pieces of a vocabulary in the order of their ids.

    Raises:
      UserError: the ids are not all numbers from 0 on.
    """
    try:
        pieces = {int(i): piece for piece, i in ids.items()}
        "".join(ids).encode()  # JSON may hold lone surrogates, UTF-8 not.
    except (OverflowError, TypeError, ValueError) as error:
        raise UserError(
            f"{origin}: expected pieces with their ids: {brief(error)}.", code="not_a_vocabulary"
        ) from error
    if missing := set(range(len(ids))) - pieces.keys():
        raise UserError(
            f"{origin}: expected ids from 0 to {len(ids) - 1}, got no {min(missing)}.",
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
    """Returns `share_embeddings`, and embeddings and softmax by their paths here.

    Args:
      source: [source_vocab_size, d_model].
      target: [vocab_size, d_model].
      projection: that of the logits, [vocab_size, d_model].
      bias: that of the logits, [vocab_size]; None = they have none.
      same_inputs: whether source and target share their matrix.
      tied: whether target and logits do.
    """
    share = {(True, True): "all", (True, False): "input", (False, True): "target"}
    name = "embedding" if same_inputs else "target_embedding"
    weights = {f"{name}/table/embeddings": target}
    if not same_inputs:
        weights["source_embedding/table/embeddings"] = source
    if not tied:
        weights[f"{name}/table/reverse_embeddings"] = projection.T
    if bias is not None:
        weights[f"{name}/bias"] = bias
    return share.get((same_inputs, tied), "none"), weights


def equal_embeddings(
    orders: Sequence[IdOrder],
    source: np.ndarray,
    target: np.ndarray,
    projection: np.ndarray,
    bias: np.ndarray | None,
    one_vocabulary: bool,
) -> tuple[str, dict[str, np.ndarray]]:
    """Returns what `embedding_weights` does, for matrices that are shared where they are equal.

    Args:
      orders: of the rows of source and target.
      source: rows there; likewise all others.
      target: see `embedding_weights`.
      projection: see `embedding_weights`.
      bias: of the logits, in any shape; None = zeros.
      one_vocabulary: whether equal rows of source and target are of the same pieces.
    """
    bias = np.zeros(len(target), np.float32) if bias is None else bias.reshape(-1)
    return embedding_weights(
        orders[0].rows(source),
        orders[1].rows(target),
        orders[1].rows(projection),
        orders[1].bias(bias),
        same_inputs=one_vocabulary and np.array_equal(source, target),
        tied=np.array_equal(projection, target),
    )


def check_size(
    size: int, pieces: Sequence[str], file: str | Path, model: str | Path, unlisted: int
) -> None:
    """Raises `UserError` unless a model has an id for each piece, `unlisted` ones included."""
    if len(pieces) != size:
        raise UserError(
            f"{file} is not the vocabulary of {model}: expected {size - unlisted:,} lines, got "
            f"{len(pieces) - unlisted:,}.",
            code="other_vocabulary",
        )


_SUBLAYERS = ("self_attention", "memory_attention", "feed_forward")
_PARTS = ("query", "key", "value", "output", "inner", "outer")


class WeightNames:
    """A toolkit's names of weights, as templates such as "{side}.layers.{layer}.{part}.{dense}".

    Args:
      weights: templates of the kernels and biases of layers; one without {sublayer} is of the
        feed-forward network.
      norms: templates of the normalisation of a sub-layer.
      others: by template, the path here; {input} in a path is "source" or "target".
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
        others: Mapping[str, str],
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
        paths |= others
        self._paths = [(self._pattern(template), path) for template, path in paths.items()]
        self._first_layer, self._outputs_first = first_layer, outputs_first

    def _pattern(self, template: str) -> re.Pattern[str]:
        pattern = re.escape(template).replace(r"\{layer\}", r"(?P<layer>\d+)")
        for kind, words in self._words.items():
            choice = "|".join(map(re.escape, words))
            pattern = pattern.replace(rf"\{{{kind}\}}", f"(?P<{kind}>{choice})")
        return re.compile(pattern)

    def _path(self, name: str) -> str | None:
        """Returns the path here of a weight; None = it has none."""
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
        """Returns weights by their paths here; raises `UserError` for one without counterpart."""
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


def pytorch_names(side: str, others: Mapping[str, str]) -> WeightNames:
    """Returns the names of fairseq, and of Hugging Face's models after it."""
    layer = f"{side}.layers.{{layer}}."
    return WeightNames(
        [f"{layer}{{sublayer}}.{{part}}.{{dense}}", f"{layer}{{part}}.{{dense}}"],
        [f"{layer}{{sublayer}}_layer_norm.{{norm}}"],
        others,
        sublayers=("self_attn", "encoder_attn", "final"),
        parts=("q_proj", "k_proj", "v_proj", "out_proj", "fc1", "fc2"),
        dense=("weight", "bias"),
        norm=("weight", "bias"),
        outputs_first=True,
    )
