"""Models of Marian, such as OPUS-MT's: its own .npz files, and Hugging Face's folders."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from t2t_keras.errors import UserError, shorten, translated_errors
from t2t_keras.interop.importers.files import (
    check_compression,
    find_recorded_file,
    read_weights,
    read_yaml,
)
from t2t_keras.interop.importers.imported import Imported, Settings
from t2t_keras.interop.importers.weights import (
    IdOrder,
    WeightNames,
    make_tokenizer,
    pieces_by_id,
    pytorch_names,
    reordered_embeddings,
    split_files,
    vocabulary_files,
)
from t2t_keras.io.files import open_regular, read_bounded, read_json
from t2t_keras.layers.embedding import sinusoids
from t2t_keras.text.tokenizer import Tokenizer, load_processor

_OPTIONS = "special:model.yml"
_ACTIVATIONS = {"swish": "silu", "relu": "relu"}
# Options that change the model, with the supported values; Marian's default comes first.
_SUPPORTED_VALUES: dict[str, list[Any]] = {
    "type": ["transformer"],
    "transformer-decoder-autoreg": ["self-attention"],
    "transformer-ffn-depth": [2],
    "transformer-decoder-ffn-depth": [0, 2],
    "transformer-no-projection": [False],
    "transformer-pool": [False],
    "transformer-tied-layers": [[], None],
    "transformer-train-position-embeddings": [False],
    "transformer-disable-position-embeddings": [False],
    "transformer-attention-mask": ["default"],
    "transformer-no-bias": [False],
    "transformer-no-affine": [False],
    "transformer-postprocess-emb": ["d", "", "n", "nd"],
    "lemma-dim-emb": [0],
    "right-left": [False],
    "ulr": [False],
    "input-types": [[], ["sequence", "sequence"], None],
}
# Whether a model is pre-norm, by its operations without dropout: those before a sub-layer, after
# it, and after the stack.
_PRE_NORM = {" an ": False, "n a n": True}
_NAMES = WeightNames(
    ["{side}_l{layer}_{sublayer}_{dense}{part}"],
    ["{side}_l{layer}_{sublayer}_Wo_ln_{norm}", "{side}_l{layer}_{sublayer}_ffn_ln_{norm}"],
    {"{side}_top_ln_{norm}": "{side}_norm/{norm}", "{side}_emb_ln_{norm}": "{input}_norm/{norm}"},
    sublayers=("self", "context", "ffn"),
    parts=("q", "k", "v", "o", "1", "2"),
    dense=("W", "b"),
    norm=("scale", "bias"),
    first_layer=1,
)
_LOGITS_PREFIX = "decoder_ff_logit_out_"
# Characters of Marian's vocabularies that YAML forbids or reads as line breaks.
_CONTROLS = (*range(1, 9), 11, 12, *range(14, 32), *range(127, 160), 0x2028, 0x2029, 0xFFFE, 0xFFFF)
_REPLACE_CONTROLS = {code: 0xF0000 + code for code in _CONTROLS}
_RESTORE_CONTROLS = {replacement: code for code, replacement in _REPLACE_CONTROLS.items()}


def read_marian(model: str | Path, vocabulary: str | Path = "") -> Imported:
    """Reads a model of Marian.

    Results differ slightly from Hugging Face's conversions of the same model: Marian's sinusoids
    have wavelengths up to 10000 · 2 pi, and its layer normalisation adds 1e-6 to the variance.

    Args:
      model: the `.npz` file, or a folder with one or with those of `read_huggingface`.
      vocabulary: one file, or two comma-separated files (source, target): `.spm`, `.yml`, or text
        with a piece per line; "" = the files named by `decoder.yml` or a similar file next to the
        model. Given with other files, `.spm` files only divide text into pieces. By default, that
        is source.spm and target.spm next to the model, as in OPUS-MT, or else spaces divide text.

    Raises:
      UserError: a file is missing or damaged, or the model has a part that cannot be represented.
    """
    if (Path(model) / "config.json").exists():
        if vocabulary:
            raise UserError(
                f"{model} is a folder of Hugging Face, with its vocabulary: expected no "
                f"--vocabulary, got {vocabulary}. To use another one, replace source.spm, "
                f"target.spm and vocab.json in the folder.",
                code="bad_flags",
            )
        return read_huggingface(model)
    path = _find_model(Path(model))
    arrays = _read_arrays(path)
    options = read_yaml(arrays.pop(_OPTIONS).tobytes().rstrip(b"\0"), f"{path}: {_OPTIONS}")
    hparams = hyperparameters(Settings(options, f"{path}: {_OPTIONS}"))
    shared = arrays.pop("Wemb", None)
    source, target = (arrays.pop(f"{side}_Wemb", shared) for side in ("encoder", "decoder"))
    if source is None or target is None:
        raise UserError(
            f"{path}: expected Wemb, or encoder_Wemb and decoder_Wemb.", code="missing_weight"
        )
    projection = arrays.pop(f"{_LOGITS_PREFIX}Wt", target)
    if f"{_LOGITS_PREFIX}W" in arrays:
        projection = arrays.pop(f"{_LOGITS_PREFIX}W").T
    bias = arrays.pop(f"{_LOGITS_PREFIX}b", None)
    orders, tokenizer = _vocabularies(path, str(vocabulary), (len(source), len(target)))
    hparams["share_embeddings"], our_weights = reordered_embeddings(
        orders, source, target, projection, bias, orders[0].pieces == orders[1].pieces
    )
    layers = {name.removesuffix("_pre"): value for name, value in arrays.items()}
    our_weights |= _NAMES.weights(layers, path)
    return Imported(hparams, our_weights, tokenizer)


def _find_model(model: Path) -> Path:
    if not model.is_dir():
        return model
    models = [file for file in model.glob("*.npz") if not file.name.endswith(".optimizer.npz")]
    if len(models) != 1:
        raise UserError(
            f"{model}: expected config.json or one .npz file, got {len(models)}.",
            code="ambiguous_files" if models else "no_model",
        )
    return models[0]


def _read_arrays(path: Path) -> dict[str, np.ndarray]:
    try:
        with open_regular(path) as stream, np.load(stream) as file:
            check_compression(file.zip, stream)
            arrays = {name: file[name] for name in file.files}
        options = arrays.pop(_OPTIONS)
    except UserError as error:
        raise UserError(f"{path}: {error}", code=error.code) from error
    except Exception as error:
        raise UserError(
            f"{path} cannot be read ({shorten(error)}): expected an .npz file of Marian, with "
            f"{_OPTIONS}, or a folder with config.json.",
            code="not_a_checkpoint",
        ) from error
    weights = {name: array for name, array in arrays.items() if not name.startswith("special:")}
    if wrong := [name for name, array in weights.items() if array.dtype.kind != "f"]:
        raise UserError(
            f"{path}: {wrong[0]} is {weights[wrong[0]].dtype}; quantised models are not supported.",
            code="not_supported",
        )
    return {name: np.asarray(array, np.float32) for name, array in weights.items()} | {
        _OPTIONS: options
    }


def hyperparameters(settings: Settings) -> dict[str, Any]:
    """Returns our hyperparameters for Marian's options.

    Raises:
      UserError: an option changes the computation and cannot be represented.
    """
    for name, allowed in _SUPPORTED_VALUES.items():
        settings.get_allowed(name, *allowed)
    width = settings.get("transformer-dim-ffn")
    settings.get_allowed("transformer-decoder-dim-ffn", 0, width)
    activation = settings.get_allowed("transformer-ffn-activation", *_ACTIVATIONS)
    defaults = {"preprocess": "", "postprocess": "dan", "postprocess-top": ""}
    norms = {
        f"transformer-{name}": settings.get(f"transformer-{name}", default) or ""
        for name, default in defaults.items()
    }
    pre_norm = _PRE_NORM.get(" ".join(operations.replace("d", "") for operations in norms.values()))
    if pre_norm is None:
        values = ", ".join(f"{name}={operations!r}" for name, operations in norms.items())
        raise UserError(
            f"{settings.origin}: {values} cannot be represented here; expected '', 'dan' and '', "
            f"or 'n', 'da' and 'n'.",
            code="not_supported",
        )
    return {
        "num_encoder_layers": settings.get("enc-depth"),
        "num_decoder_layers": settings.get("dec-depth"),
        "d_model": settings.get("dim-emb"),
        "d_ff": width,
        "num_heads": settings.get("transformer-heads"),
        "activation": _ACTIVATIONS[activation],
        "pre_norm": pre_norm,
        "embedding_norm": "n" in settings.get("transformer-postprocess-emb", "d"),
        "attention_bias": True,
        "softmax_bias": True,
        "norm_epsilon": 1e-6,
        "sinusoids": "tensor2tensor",
    }


def _vocabularies(
    path: Path, vocabulary: str, sizes: Sequence[int]
) -> tuple[tuple[IdOrder, IdOrder], Tokenizer]:
    """Returns the orders of ids of source and target, and the tokenizer."""
    models, lists = vocabulary_files(vocabulary) if vocabulary else split_files(_listed_files(path))
    files = lists or models
    if len(files) not in (1, 2):
        raise UserError(
            f"{path}: expected vocabularies of source and target, got {len(files)}.",
            code="bad_value",
        )
    source = read_vocabulary(files[0], sizes[0])
    target = read_vocabulary(files[-1], sizes[1])
    spm_files = [path.parent / f"{side}.spm" for side in ("source", "target")]
    if not models and all(file.exists() for file in spm_files):
        models = spm_files
    return (source, target), make_tokenizer(source.our_pieces, target.our_pieces, models, files[-1])


def _listed_files(path: Path) -> list[Path]:
    """Returns the vocabularies that a configuration file next to the model lists."""
    names = f"{path.name}.decoder.yml", "decoder.yml", f"{path.name}.yml"
    for file in (path.parent / name for name in names):
        if file.exists():
            listed_files = read_yaml(read_bounded(file), str(file)).get("vocabs")
            if not isinstance(listed_files, list):
                raise UserError(
                    f"{file}: expected a list of files as vocabs, got {shorten(listed_files)}.",
                    code="bad_configuration",
                )
            return [find_recorded_file(name, path.parent) for name in listed_files]
    raise UserError(
        f"{path}: expected {names[0]} or {names[1]} next to it, or --vocabulary.",
        code="no_vocabulary",
    )


def read_vocabulary(file: Path, size: int) -> IdOrder:
    """Returns the order of a vocabulary's ids; the model uses the first `size` ids.

    Raises:
      UserError: the file cannot be read, has fewer ids, or lacks </s> or <unk>.
    """
    content = read_bounded(file)
    if file.suffix == ".spm":
        model = load_processor(content, file)
        pieces = [model.id_to_piece(i) for i in range(model.get_piece_size())]
        end, unknown = model.eos_id(), model.unk_id()
    else:
        ids = _parse_ids(content, file)
        pieces = pieces_by_id({piece: i for piece, i in ids.items() if i < size}, str(file))
        # "eos" and "UNK" are Nematus's names.
        end, unknown = ids.get("</s>", ids.get("eos", -1)), ids.get("<unk>", ids.get("UNK", -1))
    if len(pieces) != size or min(end, unknown) < 0:
        raise UserError(
            f"{file}: expected {size:,} pieces, as the model has, with </s> and <unk>, got "
            f"{len(pieces):,}.",
            code="other_vocabulary",
        )
    return IdOrder(pieces, end, unknown)


def _parse_ids(content: bytes, file: Path) -> dict[str, int]:
    damage, text = (AttributeError, TypeError, ValueError), f"{file} is not a vocabulary of Marian"
    with translated_errors(damage, text, code="not_a_vocabulary"):
        text = content.decode("utf-8")
        if file.suffix not in (".yml", ".yaml", ".json"):
            return {piece: i for i, piece in enumerate(text.removesuffix("\n").split("\n"))}
        numbers = read_yaml(text.translate(_REPLACE_CONTROLS), str(file), texts_only=True)
        return {piece.translate(_RESTORE_CONTROLS): int(i) for piece, i in numbers.items()}


_HUGGINGFACE_ACTIVATIONS = {"gelu": "gelu", "swish": "silu", "silu": "silu", "relu": "relu"}
_SHARED = "model.shared.weight"
_SOURCE, _TARGET, _PROJECTION = (
    "model.encoder.embed_tokens.weight",
    "model.decoder.embed_tokens.weight",
    "lm_head.weight",
)
_HUGGINGFACE_NAMES = pytorch_names("model.{side}", {})
_ADVICE = "Hugging Face's model folders have this file."
# Published models store positions as float16, so they are rounded.
_MAX_ROUNDING = 1e-3


def read_huggingface(model: str | Path) -> Imported:
    """Reads a `MarianMTModel` of Hugging Face.

    Args:
      model: the folder, with config.json, model.safetensors or pytorch_model.bin, source.spm,
        target.spm and vocab.json; and target_vocab.json if the target has its own ids.

    Raises:
      UserError: a file is missing, damaged or would run code, or the model has a part that cannot
        be represented.
    """
    folder = Path(model)
    settings = Settings(read_json(folder / "config.json", _ADVICE), str(folder / "config.json"))
    hparams = huggingface_hyperparameters(settings)
    same_pieces = settings.get("share_encoder_decoder_embeddings", True)
    weights = read_weights(folder, "model.safetensors", "pytorch_model.bin")
    source, target, projection = _huggingface_tables(weights, settings, folder)
    file = "vocab.json" if same_pieces else "target_vocab.json"
    target_order = _huggingface_order(folder / file, len(target), settings)
    # Decoding starts with padding, a row of zeros until fine-tuning with tied matrices trains it.
    settings.get_allowed("decoder_start_token_id", target_order.padding)
    if np.any(target[target_order.padding]):
        target_order = dataclasses.replace(target_order, has_start=True)
        hparams["start_id"] = len(target_order.our_pieces) - 1
    source_order = target_order
    if not same_pieces:
        source_order = _huggingface_order(folder / "vocab.json", len(source), settings)
    bias = weights.pop("final_logits_bias", None)
    hparams["share_embeddings"], our_weights = reordered_embeddings(
        (source_order, target_order), source, target, projection, bias, same_pieces
    )
    for side in ("encoder", "decoder"):
        name = f"model.{side}.embed_positions.weight"
        if name in weights:
            _check_positions(weights.pop(name), name, folder)
    our_weights |= _HUGGINGFACE_NAMES.weights(weights, folder)
    segmenters = [folder / "source.spm", folder / "target.spm"]
    pieces = source_order.our_pieces, target_order.our_pieces
    return Imported(hparams, our_weights, make_tokenizer(*pieces, segmenters, folder))


def huggingface_hyperparameters(settings: Settings) -> dict[str, Any]:
    """Returns our hyperparameters for the settings of a `MarianMTModel`.

    Raises:
      UserError: a setting changes the computation and cannot be represented.
    """
    settings.get_allowed("model_type", "marian")
    settings.get_allowed("static_position_embeddings", True)
    for name in ("normalize_before", "normalize_embedding", "add_final_layer_norm"):
        settings.get_allowed(name, False)
    activation = settings.get_allowed("activation_function", *_HUGGINGFACE_ACTIVATIONS)
    for name in ("attention_heads", "ffn_dim"):
        settings.get_allowed(f"decoder_{name}", settings.get(f"encoder_{name}"))
    for side in ("encoder", "decoder"):
        settings.get_allowed(f"{side}_layerdrop", 0.0)
    return {
        "num_encoder_layers": settings.get("encoder_layers"),
        "num_decoder_layers": settings.get("decoder_layers"),
        "d_model": settings.get("d_model"),
        "d_ff": settings.get("encoder_ffn_dim"),
        "num_heads": settings.get("encoder_attention_heads"),
        "dropout": settings.get("dropout", 0.1),
        "attention_dropout": settings.get("attention_dropout", 0.0),
        "relu_dropout": settings.get("activation_dropout", 0.0),
        "activation": _HUGGINGFACE_ACTIVATIONS[activation],
        "attention_bias": True,
        "softmax_bias": True,
        "norm_epsilon": 1e-5,
        "sinusoids": "concatenated",
        "scale_embedding": bool(settings.get("scale_embedding", False)),
    }


def _huggingface_tables(
    weights: dict[str, np.ndarray], settings: Settings, folder: Path
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Removes and returns the source embeddings, target embeddings and projection."""
    tied = settings.get("tie_word_embeddings", True)
    shared = weights.pop(_SHARED, None)
    source, target, projection = (
        weights.pop(name, shared) for name in (_SOURCE, _TARGET, _PROJECTION)
    )
    if tied and settings.get("share_encoder_decoder_embeddings", True) and shared is not None:
        return shared, shared, shared
    if tied:
        projection = target
    if source is None or target is None or projection is None:
        missing = _SOURCE if source is None else _TARGET if target is None else _PROJECTION
        raise UserError(
            f"{folder}: expected the weight {missing}, or {_SHARED}.", code="missing_weight"
        )
    return source, target, projection


def _huggingface_order(path: Path, size: int, settings: Settings) -> IdOrder:
    ids = read_json(path, _ADVICE)
    pieces: list[str] = pieces_by_id(ids, str(path))
    unknown: Any = ids.get("<unk>")
    end, padding = (settings.get(f"{name}_token_id") for name in ("eos", "pad"))
    if len(pieces) != size or not all(
        isinstance(i, int) and i in range(size) for i in (end, unknown, padding)
    ):
        raise UserError(
            f"{path}: expected {size:,} pieces, as the model has, and ids of end, <unk> and "
            f"padding among them; got {len(pieces):,} and the ids {end}, {unknown} and {padding}.",
            code="other_vocabulary",
        )
    return IdOrder(pieces, end, unknown, padding)


def _check_positions(value: np.ndarray, name: str, folder: Path) -> None:
    expected = sinusoids(np.arange(len(value)), value.shape[1], "concatenated")
    if np.abs(value - expected).max() > _MAX_ROUNDING:
        raise UserError(f"{folder}: {name} is trained: expected sinusoids.", code="not_supported")
