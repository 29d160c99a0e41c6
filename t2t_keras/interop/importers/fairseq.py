"""Models of fairseq: its `transformer` architectures, with their dictionaries."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from t2t_keras.errors import UserError, translated_errors
from t2t_keras.interop.importers.files import named_tensors, read_pytorch, read_text
from t2t_keras.interop.importers.imported import Imported, Settings
from t2t_keras.interop.importers.pickles import to_containers
from t2t_keras.interop.importers.weights import (
    check_size,
    embedding_weights,
    make_tokenizer,
    pytorch_names,
    vocabulary_files,
)

# fairseq's special ids, before those of its dictionaries.
_BEGIN, _PADDING, _END, _UNKNOWN, _FIRST_WORD = range(5)
_ACTIVATIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_accurate": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "tanh": "tanh",
    "linear": "linear",
}
# Entries that are not weights, or are copies of weights for a faster kernel of PyTorch.
_IGNORED = re.compile(
    r"(encoder|decoder)\.(version|embed_positions\._float_tensor)"
    r"|encoder\.layers\.\d+\.(in_proj|out_proj|fc1|fc2)_(weight|bias)"
)
_NAMES = pytorch_names(
    "{side}",
    {
        "{side}.layer_norm.{norm}": "{side}_norm/{norm}",
        "{side}.layernorm_embedding.{norm}": "{input}_norm/{norm}",
        "{side}.embed_positions.weight": "{input}_positions/table",
    },
)
# fairseq's names before 2020.
_OLD_NORM = re.compile(r"(encoder|decoder)(\.layers\.\d+\.)layer_norms\.(\d)\.(weight|bias)")
_OLD_NORMS = {"encoder": ("self_attn", "final"), "decoder": ("self_attn", "encoder_attn", "final")}
_OLD_PROJECTIONS = re.compile(r"(.+_attn\.)in_proj_(weight|bias)")


def read_fairseq(
    model: str | Path, languages: tuple[str, str], vocabulary: str | Path = ""
) -> Imported:
    """Reads a checkpoint of fairseq without running its code.

    Args:
      model: the `.pt` file.
      languages: codes of source and target.
      vocabulary: comma-separated paths: the folder of `dict.<language>.txt`, or one or two such
        files; default: next to the model. For unsegmented text, also one or two
        SentencePiece `.model` files.

    Raises:
      UserError: a file is missing, damaged or would run code, or the model has a part that cannot
        be represented.
    """
    path = Path(model)
    model_settings, task, weights, steps = _read_checkpoint(path)
    task_name = task.get("_name") or task.get("task", "translation")
    Settings({"task": task_name}, str(path)).get_allowed("task", "translation")
    if (task.get("source_lang"), task.get("target_lang")) == languages[::-1]:
        raise UserError(
            f"{path} translates {languages[1]} to {languages[0]}, but the problem translates "
            f"{languages[0]} to {languages[1]}. Swap the languages of the problem.",
            code="other_direction",
        )
    hparams = hyperparameters(Settings(model_settings, str(path)))
    segmenters, dictionaries = vocabulary_files(vocabulary)
    files = _dictionary_files(dictionaries or [path.parent], languages)
    pieces = [_read_dictionary(file) for file in files]
    empty = np.zeros((0, 0), np.float32)
    source, target = (
        weights.pop(f"{side}.embed_tokens.weight", empty) for side in ("encoder", "decoder")
    )
    check_size(len(source), pieces[0], files[0], path, _FIRST_WORD)
    check_size(len(target), pieces[1], files[1], path, _FIRST_WORD)
    projection = weights.pop("decoder.output_projection.weight", target)
    projection = weights.pop("decoder.embed_out", projection)  # Its name before 2020.
    all_shared = bool(model_settings.get("share_all_embeddings"))
    hparams["share_embeddings"], our_weights = embedding_weights(
        _in_our_order(source),
        _in_our_order(target),
        _in_our_order(projection),
        same_inputs=all_shared,
        tied=all_shared or bool(model_settings.get("share_decoder_input_output_embed")),
    )
    layers = {name: weight for name, weight in weights.items() if not _IGNORED.fullmatch(name)}
    our_weights |= _NAMES.weights(_with_new_names(layers), path)
    positions = {n: table for n, table in our_weights.items() if n.endswith("_positions/table")}
    if positions:
        # Pad a shorter table: positions after its last row cannot have been trained.
        rows = hparams["max_positions"] = max(map(len, positions.values()))
        for name, table in positions.items():
            our_weights[name] = np.pad(table, [(0, rows - len(table)), (0, 0)], "edge")
    origin = " and ".join(sorted({str(file) for file in files}))
    tokenizer = make_tokenizer(pieces[0], pieces[1], segmenters, origin)
    return Imported(hparams, our_weights, tokenizer, steps)


def _read_checkpoint(path: Path) -> tuple[dict, dict, dict[str, np.ndarray], int]:
    """Returns the settings of model and task, the weights, and the number of training steps."""
    content = read_pytorch(path)
    with translated_errors(
        (AttributeError, KeyError, TypeError, ValueError),
        f"{path} is not a checkpoint of fairseq, with the keys model, and args or cfg",
        code="not_a_checkpoint",
    ):
        config = to_containers(content.get("cfg"), str(path)) or {}
        settings = config.get("model") or to_containers(content["args"], str(path))
        # `_name` names the task here, but the architecture in the model's settings.
        task = config.get("task") or {**settings, "_name": settings.get("task")}
        weights = named_tensors(content["model"], path)
        steps = int((content.get("optimizer_history") or [{}])[-1].get("num_updates", 0))
        return {**settings}, {**task}, weights, steps


def hyperparameters(settings: Settings) -> dict[str, Any]:
    """Returns our hyperparameters for fairseq's settings of a Transformer.

    Raises:
      UserError: a setting changes the computation and cannot be represented.
    """
    for name, *allowed in (
        ("encoder_normalize_before", settings.get("decoder_normalize_before", False)),
        ("no_decoder_final_norm", False),
        ("adaptive_softmax_cutoff", None),
        ("adaptive_input", False),
        ("cross_self_attention", False),
        ("no_cross_attention", False),
        ("no_token_positional_embeddings", False),
        ("encoder_layers_to_keep", None),
        ("decoder_layers_to_keep", None),
        ("base_layers", 0),
        ("encoder_attention_heads", settings.get("decoder_attention_heads")),
        ("encoder_ffn_embed_dim", settings.get("decoder_ffn_embed_dim")),
        ("encoder_learned_pos", settings.get("decoder_learned_pos", False)),
        ("encoder_embed_dim", settings.get("decoder_embed_dim")),
        ("decoder_input_dim", settings.get("decoder_embed_dim"), None),
        ("decoder_output_dim", settings.get("decoder_embed_dim"), None),
    ):
        settings.get_allowed(name, *allowed)
    activation = settings.get_allowed("activation_fn", *_ACTIVATIONS)
    sizes = {
        "num_encoder_layers": "encoder_layers",
        "num_decoder_layers": "decoder_layers",
        "d_model": "encoder_embed_dim",
        "d_ff": "encoder_ffn_embed_dim",
        "num_heads": "encoder_attention_heads",
    }
    positions = {"sinusoids": "tensor2tensor"}
    if settings.get("encoder_learned_pos"):
        positions = {"positions": "learned"}
    hparams = {hparam: settings.get_required(name) for hparam, name in sizes.items()} | positions
    return hparams | {
        "dropout": settings.get("dropout", 0.1),
        "attention_dropout": settings.get("attention_dropout", 0.0),
        "relu_dropout": settings.get("activation_dropout") or settings.get("relu_dropout") or 0.0,
        "activation": _ACTIVATIONS[activation],
        "pre_norm": bool(settings.get("encoder_normalize_before", False)),
        "attention_bias": True,
        "norm_epsilon": 1e-5,
        "scale_embedding": not settings.get("no_scale_embedding", False),
        "embedding_norm": bool(settings.get("layernorm_embedding", False)),
        # fairseq counts positions from the id after padding.
        "first_position": _PADDING + 1,
        "start_id": 1,
    }


def _dictionary_files(paths: Sequence[Path], languages: tuple[str, str]) -> tuple[Path, Path]:
    """Returns the dictionaries of source and target."""
    if paths[0].is_dir():
        source, target = (paths[0] / f"dict.{language}.txt" for language in languages)
        return source, target
    return paths[0], paths[-1]


def _read_dictionary(path: Path) -> list[str]:
    """Returns the words of a dictionary in the order of our ids."""
    advice = "fairseq-preprocess writes it. Name its folder with --vocabulary."
    # Not `splitlines`: words may contain some of its separators.
    lines = read_text(path, advice).removesuffix("\n").split("\n")
    # A line has a word, its count, and perhaps a flag.
    words = [line.removesuffix(" #fairseq:overwrite").rpartition(" ")[0] for line in lines]
    return ["<pad>", "</s>", "<unk>", "<s>", *words]


def _in_our_order(table: np.ndarray) -> np.ndarray:
    return table[[_PADDING, _END, _UNKNOWN, _BEGIN, *range(_FIRST_WORD, len(table))]]


def _with_new_names(weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns the weights under fairseq's names since 2020."""
    renamed = {}
    for name, value in weights.items():
        if match := _OLD_NORM.fullmatch(name):
            side, layer, number, kind = match.groups()
            renamed[f"{side}{layer}{_OLD_NORMS[side][int(number)]}_layer_norm.{kind}"] = value
        elif match := _OLD_PROJECTIONS.fullmatch(name):
            for projection, part in zip("qkv", np.split(value, 3), strict=True):
                renamed[f"{match[1]}{projection}_proj.{match[2]}"] = part
        else:
            renamed[name] = value
    return renamed
