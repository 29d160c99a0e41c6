"""Models of Marian in its own form: an .npz with its options inside, and vocabularies beside it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from t2t_keras.errors import UserError, brief
from t2t_keras.interop.importers.files import named_beside, read_file, read_yaml
from t2t_keras.interop.importers.imported import Imported, Settings
from t2t_keras.interop.importers.marian import read_huggingface
from t2t_keras.interop.importers.tensors import check_compression
from t2t_keras.interop.importers.vocabularies import by_kind, listed_pieces, named_files
from t2t_keras.interop.importers.weights import (
    IdOrder,
    WeightNames,
    equal_embeddings,
    pieces_by_id,
)
from t2t_keras.io.files import open_regular
from t2t_keras.text.tokenizer import Tokenizer, load_processor

_OPTIONS = "special:model.yml"
_ACTIVATIONS = {"swish": "silu", "relu": "relu"}
# What changes the model, with what of it can be represented, Marian's default first.
_ONLY: dict[str, list[Any]] = {
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
# Operations before and after a sub-layer and after a stack, dropout aside: whether it is pre-norm.
_NORMS = {" an ": False, "n a n": True}
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
_LOGITS = "decoder_ff_logit_out_"
# Line breaks to YAML, but not to Marian, and characters that YAML forbids.
_CONTROLS = (*range(1, 9), 11, 12, *range(14, 32), *range(127, 160), 0x2028, 0x2029, 0xFFFE, 0xFFFF)
_NOT_OF_YAML = {code: 0xF0000 + code for code in _CONTROLS}
_OF_YAML = {replaced: code for code, replaced in _NOT_OF_YAML.items()}


def read_marian(model: str | Path, vocabulary: str | Path = "") -> Imported:
    """Reads a model as Marian writes it.

    Positions and layer normalisation are those of Marian, from which Hugging Face's conversions
    differ a little: Marian's wavelengths reach 10000 · 2 pi, and it adds 1e-6 to the variance.

    Args:
      model: the `.npz` file, or a folder with one or with what `read_huggingface` takes.
      vocabulary: the vocabulary, or those of source and target, with commas between: `.spm`, `.yml`
        or one piece a line; "" = those that `decoder.yml` or its like beside the model names.
        `.spm` files with others divide text into their pieces; if none is given, source.spm and
        target.spm beside the model do, as of OPUS-MT; without them it is divided at spaces.

    Raises:
      UserError: a file is missing or damaged, would run code, or the model computes something that
        has no counterpart here, which is named.
    """
    if (Path(model) / "config.json").exists():
        if vocabulary:
            raise UserError(
                f"{model}: source.spm, target.spm and vocab.json in it are read; {vocabulary} "
                f"cannot replace them. Put it there under its name, and give no vocabulary.",
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
    projection = arrays.pop(f"{_LOGITS}Wt", target)
    if f"{_LOGITS}W" in arrays:
        projection = arrays.pop(f"{_LOGITS}W").T
    bias = arrays.pop(f"{_LOGITS}b", None)
    orders, tokenizer = _vocabularies(path, str(vocabulary), (len(source), len(target)))
    hparams["share_embeddings"], found = equal_embeddings(
        orders, source, target, projection, bias, orders[0].pieces == orders[1].pieces
    )
    named = {name.removesuffix("_pre"): value for name, value in arrays.items()}
    found |= _NAMES.weights(named, path)
    return Imported(hparams, found, tokenizer)


def _find_model(model: Path) -> Path:
    if not model.is_dir():
        return model
    found = [each for each in model.glob("*.npz") if not each.name.endswith(".optimizer.npz")]
    if len(found) != 1:
        raise UserError(
            f"{model}: expected config.json or one .npz file, got {len(found)}.",
            code="ambiguous_files" if found else "no_model",
        )
    return found[0]


def _read_arrays(path: Path) -> dict[str, np.ndarray]:
    try:
        with open_regular(path) as opened, np.load(opened) as file:
            check_compression(file.zip, opened)
            arrays = {name: file[name] for name in file.files}
        options = arrays.pop(_OPTIONS)
    except UserError as error:
        raise UserError(f"{path}: {error}", code=error.code) from error
    except Exception as error:
        raise UserError(
            f"{path} cannot be read ({brief(error)}): expected an .npz file of Marian, with "
            f"{_OPTIONS}, or a folder with config.json.",
            code="not_a_checkpoint",
        ) from error
    weights = {name: each for name, each in arrays.items() if not name.startswith("special:")}
    if wrong := [name for name, each in weights.items() if each.dtype.kind != "f"]:
        raise UserError(
            f"{path}: {wrong[0]} is {weights[wrong[0]].dtype}: expected no quantised model.",
            code="not_supported",
        )
    return {name: np.asarray(each, np.float32) for name, each in weights.items()} | {
        _OPTIONS: options
    }


def hyperparameters(settings: Settings) -> dict[str, Any]:
    """Returns what Marian's options are called here.

    Raises:
      UserError: one that changes what the model computes cannot be represented.
    """
    for name, allowed in _ONLY.items():
        settings.only(name, *allowed)
    width = settings.get("transformer-dim-ffn")
    settings.only("transformer-decoder-dim-ffn", 0, width)
    activation = settings.only("transformer-ffn-activation", *_ACTIVATIONS)
    usual = {"preprocess": "", "postprocess": "dan", "postprocess-top": ""}
    norms = {
        f"transformer-{name}": settings.get(f"transformer-{name}", default) or ""
        for name, default in usual.items()
    }
    pre_norm = _NORMS.get(" ".join(operations.replace("d", "") for operations in norms.values()))
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
    """Returns the ids of source and target, and the tokenizer."""
    models, lists = named_files(vocabulary) if vocabulary else by_kind(_files_beside(path))
    files = lists or models
    if len(files) not in (1, 2):
        raise UserError(
            f"{path}: expected vocabularies of source and target, got {len(files)}.",
            code="bad_value",
        )
    source = read_vocabulary(files[0], sizes[0])
    target = read_vocabulary(files[-1], sizes[1])
    beside = [path.parent / f"{side}.spm" for side in ("source", "target")]
    if not models and all(file.exists() for file in beside):
        models = beside
    return (source, target), listed_pieces(source.our_pieces, target.our_pieces, models, files[-1])


def _files_beside(path: Path) -> list[Path]:
    """Returns the vocabularies that a file beside the model names, in the model's folder."""
    names = f"{path.name}.decoder.yml", "decoder.yml", f"{path.name}.yml"
    for file in (path.parent / name for name in names):
        if file.exists():
            listed = read_yaml(read_file(file), str(file)).get("vocabs")
            if not isinstance(listed, list):
                raise UserError(
                    f"{file}: expected a list of files as vocabs, got {brief(listed)}.",
                    code="bad_configuration",
                )
            return [named_beside(name, path.parent) for name in listed]
    raise UserError(
        f"{path}: expected {names[0]} or {names[1]} beside it, or --vocabulary.",
        code="no_vocabulary",
    )


def read_vocabulary(file: Path, size: int) -> IdOrder:
    """Returns the ids of a vocabulary, of which the model has the first `size`.

    Raises:
      UserError: it cannot be read, has fewer, or has no </s> or <unk>.
    """
    content = read_file(file)
    if file.suffix == ".spm":
        model = load_processor(content, file)
        pieces = [model.id_to_piece(i) for i in range(model.get_piece_size())]
        end, unknown = model.eos_id(), model.unk_id()
    else:
        ids = _ids(content, file)
        pieces = pieces_by_id({piece: i for piece, i in ids.items() if i < size}, str(file))
        # The second name is that of Nematus.
        end, unknown = ids.get("</s>", ids.get("eos", -1)), ids.get("<unk>", ids.get("UNK", -1))
    if len(pieces) != size or min(end, unknown) < 0:
        raise UserError(
            f"{file}: expected {size:,} pieces, as the model has, with </s> and <unk>, got "
            f"{len(pieces):,}.",
            code="other_vocabulary",
        )
    return IdOrder(pieces, end, unknown)


def _ids(content: bytes, file: Path) -> dict[str, int]:
    try:
        text = content.decode("utf-8")
        if file.suffix not in (".yml", ".yaml", ".json"):
            return {piece: i for i, piece in enumerate(text.removesuffix("\n").split("\n"))}
        found = read_yaml(text.translate(_NOT_OF_YAML), str(file), texts_only=True)
        return {piece.translate(_OF_YAML): int(i) for piece, i in found.items()}
    except (AttributeError, TypeError, ValueError) as error:
        raise UserError(
            f"{file} is not a vocabulary of Marian: {brief(error)}.", code="not_a_vocabulary"
        ) from error
