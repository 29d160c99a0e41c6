"""Models of Marian, OPUS-MT's among them: Hugging Face folders, and Marian's own `.npz`."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from t2t_keras.conversion.imported import Imported, Settings
from t2t_keras.conversion.layers import layer_weights
from t2t_keras.conversion.tensors import read_weights
from t2t_keras.conversion.vocabularies import joint_pieces
from t2t_keras.errors import UserError
from t2t_keras.text.tokenizer import EOS_ID, PADDING_ID, UNKNOWN_ID, Tokenizer

_ACTIVATIONS = {"swish": "silu", "silu": "silu", "relu": "relu", "gelu": "gelu"}


def read_huggingface(model: str | Path) -> Imported:
    """Reads a `MarianMTModel` in Hugging Face's form.

    Args:
      model: the folder, with config.json, model.safetensors or pytorch_model.bin, source.spm,
        target.spm and vocab.json.

    Raises:
      UserError: a file is missing or damaged, would run code, or the model computes something that
        has no counterpart here, which is named.
    """
    folder = Path(model)
    settings = Settings(_json(folder / "config.json"), str(folder / "config.json"))
    ids = _json(folder / "vocab.json")
    hparams = _hyperparameters(settings)
    names = [settings.get(f"{name}_token_id") for name in ("pad", "eos")] + [ids.get("<unk>")]
    if None in names or settings.get("decoder_start_token_id") != names[0]:
        raise UserError(
            f"{folder}: expected a padding, an end and an unknown id, and the decoder to start with "
            f"padding, got {names} and {settings.get('decoder_start_token_id')}."
        )
    order = _order(len(ids), names)
    weights = read_weights(folder, "model.safetensors", "pytorch_model.bin")
    found = _weights(weights, hparams, order, names[0], folder)
    pieces = {i: piece for piece, i in ids.items()}
    target, source = (
        joint_pieces((folder / file).read_bytes(), [pieces[i] for i in order], folder / file)
        for file in ("target.spm", "source.spm")
    )
    return Imported(hparams, found, target.with_source(source))


def _hyperparameters(settings: Settings) -> dict[str, Any]:
    settings.only("model_type", "marian")
    settings.only("static_position_embeddings", True)
    settings.only("normalize_before", False)
    settings.only("add_final_layer_norm", False)
    settings.only("extra_pos_embeddings", 0)
    settings.only("tie_word_embeddings", True)
    activation = settings.only("activation_function", *_ACTIVATIONS)
    for name in ("attention_heads", "ffn_dim"):
        settings.only(f"decoder_{name}", settings.get(f"encoder_{name}"))
    return {
        "num_encoder_layers": settings.get("encoder_layers"),
        "num_decoder_layers": settings.get("decoder_layers"),
        "d_model": settings.get("d_model"),
        "d_ff": settings.get("encoder_ffn_dim"),
        "num_heads": settings.get("encoder_attention_heads"),
        "dropout": settings.get("dropout", 0.1),
        "attention_dropout": settings.get("attention_dropout", 0.0),
        "relu_dropout": settings.get("activation_dropout", 0.0),
        "activation": _ACTIVATIONS[activation],
        "attention_bias": True,
        "softmax_bias": True,
        "norm_epsilon": 1e-5,
        "sinusoids": "concatenated",
        "scale_embedding": bool(settings.get("scale_embedding", False)),
        "embedding_norm": bool(settings.get("normalize_embedding", False)),
    }


def _order(size: int, special: Sequence[int]) -> list[int]:
    """Returns their ids in our order: padding, end, unknown, and the others as they are."""
    return [*special, *(i for i in range(size) if i not in special)]


def _weights(
    weights: dict[str, np.ndarray],
    hparams: dict[str, Any],
    order: Sequence[int],
    padding: int,
    folder: Path,
) -> dict[str, np.ndarray]:
    # Copies of what is shared, and what is computed.
    ignored = re.compile(r"(model\.(encoder|decoder)\.embed_(tokens|positions)|lm_head)\.weight")
    shared, bias = weights.pop("model.shared.weight", None), weights.pop("final_logits_bias", None)
    if shared is None:
        raise UserError(
            f"{folder}: expected one embedding matrix, model.shared.weight; models with one for "
            f"each language cannot be imported."
        )
    if np.any(shared[padding]):
        raise UserError(f"{folder}: expected an embedding of zeros for padding, which starts decoding.")
    found = {"embedding/table/embeddings": shared[order]}
    found["embedding/bias"] = np.zeros(len(order), np.float32)
    if bias is not None:
        found["embedding/bias"] = bias.reshape(-1)[order]
    for name, value in weights.items():
        if ignored.fullmatch(name):
            continue
        side, _, rest = name.removeprefix("model.").partition(".")
        if place := layer_weights(rest, value, side):
            found[place[0]] = place[1]
        elif rest in ("layernorm_embedding.weight", "layernorm_embedding.bias"):
            kind = {"encoder": "source", "decoder": "target"}[side]
            leaf = "gamma" if rest.endswith("weight") else "beta"
            found[f"{kind}_norm/{leaf}"] = value
        else:
            raise UserError(f"{folder}: the weight {name} has no counterpart here.")
    return found


def _json(path: Path) -> Mapping[str, Any]:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read ({error}). Give a model's folder.") from error
