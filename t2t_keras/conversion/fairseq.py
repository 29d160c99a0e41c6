"""Models of fairseq: its `transformer` architectures, with their dictionaries."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from t2t_keras.conversion.imported import Imported, Settings
from t2t_keras.conversion.layers import layer_weights
from t2t_keras.conversion.tensors import read_pytorch
from t2t_keras.conversion.vocabularies import words
from t2t_keras.errors import UserError

# fairseq's ids: its dictionaries begin behind them.
_BEGIN, _PADDING, _END, _UNKNOWN, _FIRST = range(5)
_ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "silu", "gelu_accurate": "gelu"}
_IGNORED = re.compile(r"(encoder|decoder)\.(version|embed_positions\._float_tensor)")


def read_fairseq(model: str | Path, source: str = "", target: str = "") -> Imported:
    """Reads a checkpoint of fairseq, of which no code is run.

    Args:
      model: the `.pt` file; beside it stand the dictionaries, `dict.<language>.txt`.
      source: language of the source.
      target: language of the target.

    Raises:
      UserError: a file is missing or damaged, would run code, or the model computes something that
        has no counterpart here, which is named.
    """
    path = Path(model)
    content = read_pytorch(path)
    try:
        values = (content.get("cfg") or {}).get("model") or content["args"]
        values = values if isinstance(values, Mapping) else vars(values)
        weights = {name: np.asarray(each, np.float32) for name, each in content["model"].items()}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path}: expected a checkpoint of fairseq ({error!r} is missing).") from error
    settings = Settings(values, str(path))
    hparams = _hyperparameters(settings)
    dictionaries = [_dictionary(path.parent / f"dict.{each}.txt") for each in (source, target)]
    tables = {side: weights.pop(f"{side}.embed_tokens.weight") for side in ("encoder", "decoder")}
    for side, dictionary in zip(tables, dictionaries, strict=True):
        if len(tables[side]) != _FIRST + len(dictionary):
            raise UserError(
                f"{path}: the {side} has {len(tables[side]):,} embeddings, its dictionary "
                f"{len(dictionary):,} words and {_FIRST} special ones."
            )
    orders = [_order(len(table)) for table in tables.values()]
    source_table, target_table = (
        table[order] for table, order in zip(tables.values(), orders, strict=True)
    )
    projection = weights.pop("decoder.output_projection.weight", None)
    found = {}
    if hparams["share_embeddings"] == "all":
        found["embedding/table/embeddings"] = source_table
    else:
        found["source_embedding/table/embeddings"] = source_table
        found["target_embedding/table/embeddings"] = target_table
    if hparams["share_embeddings"] == "none":
        found["target_embedding/table/reverse_embeddings"] = projection[orders[1]].T
    for name, value in weights.items():
        if _IGNORED.fullmatch(name):
            continue
        side, _, rest = name.partition(".")
        ours = {"encoder": "source", "decoder": "target"}.get(side)
        kind = {"weight": "gamma", "bias": "beta"}.get(rest.rpartition(".")[2])
        if rest == "embed_positions.weight":
            found[f"{ours}_positions/table"] = value
            hparams["max_positions"] = len(value)
        elif rest.startswith("layernorm_embedding."):
            found[f"{ours}_norm/{kind}"] = value
        elif rest.startswith("layer_norm."):
            found[f"{side}_norm/{kind}"] = value
        elif place := layer_weights(rest, value, side):
            found[place[0]] = place[1]
        else:
            raise UserError(f"{path}: the weight {name} has no counterpart here.")
    tokenizer = words(_pieces(dictionaries[1]))
    if dictionaries[0] != dictionaries[1]:
        tokenizer = tokenizer.with_source(words(_pieces(dictionaries[0])))
    return Imported(hparams, found, tokenizer, _steps(content))


def _hyperparameters(settings: Settings) -> dict[str, Any]:
    for name, *allowed in (
        ("encoder_normalize_before", settings.get("decoder_normalize_before", False)),
        ("adaptive_softmax_cutoff", None),
        ("cross_self_attention", False),
        ("no_cross_attention", False),
        ("no_token_positional_embeddings", False),
        ("encoder_attention_heads", settings.get("decoder_attention_heads")),
        ("encoder_ffn_embed_dim", settings.get("decoder_ffn_embed_dim")),
        ("encoder_learned_pos", settings.get("decoder_learned_pos", False)),
        ("decoder_output_dim", settings.get("decoder_embed_dim"), None),
        ("decoder_input_dim", settings.get("decoder_embed_dim"), None),
        ("encoder_embed_dim", settings.get("decoder_embed_dim")),
        ("tie_adaptive_weights", False),
    ):
        settings.only(name, *allowed)
    activation = settings.only("activation_fn", *_ACTIVATIONS)
    shared = "all" if settings.get("share_all_embeddings") else "none"
    if shared == "none" and settings.get("share_decoder_input_output_embed"):
        shared = "target"
    return {
        "num_encoder_layers": settings.get("encoder_layers"),
        "num_decoder_layers": settings.get("decoder_layers"),
        "d_model": settings.get("encoder_embed_dim"),
        "d_ff": settings.get("encoder_ffn_embed_dim"),
        "num_heads": settings.get("encoder_attention_heads"),
        "dropout": settings.get("dropout", 0.1),
        "attention_dropout": settings.get("attention_dropout", 0.0),
        "relu_dropout": settings.get("activation_dropout") or settings.get("relu_dropout") or 0.0,
        "activation": _ACTIVATIONS[activation],
        "pre_norm": bool(settings.get("encoder_normalize_before", False)),
        "attention_bias": True,
        "norm_epsilon": 1e-5,
        "scale_embedding": not settings.get("no_scale_embedding", False),
        "embedding_norm": bool(settings.get("layernorm_embedding", False)),
        "share_embeddings": shared,
        "positions": "learned" if settings.get("encoder_learned_pos") else "sinusoidal",
        "sinusoids": "tensor2tensor",
        # Positions are counted on from the id of padding.
        "first_position": _PADDING + 1,
        "start_id": 1,
    }


def _dictionary(path: Path) -> list[str]:
    """Returns the words of a file with a word and its count on each line."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read ({error}): fairseq-preprocess wrote it.") from error
    return [line.rpartition(" ")[0].removesuffix(" #fairseq:overwrite") for line in lines]


def _order(size: int) -> list[int]:
    """Returns fairseq's ids in our order."""
    return [_PADDING, _END, _UNKNOWN, _BEGIN, *range(_FIRST, size)]


def _pieces(dictionary: list[str]) -> list[str]:
    return ["<pad>", "</s>", "<unk>", "<s>", *dictionary]


def _steps(content: Mapping[str, Any]) -> int:
    history = content.get("optimizer_history") or [{}]
    return int(history[-1].get("num_updates", 0))
