"""Do models of Marian, imported, compute what transformers and CTranslate2 compute with them?

    python experiments/importing_models/from_marian.py [--shared_data=corpora] [--lines=500]
        [--folder=models]

Makes models of several shapes with experiments/importing_models/make_marian.py, trained for so
many steps that translations differ and end, and prints a row of a table for each: of the folder,
and of Marian's own .npz, for which transformers gets Marian's positions and epsilon, and
CTranslate2 its positions. Needs CTranslate2 here, and the environment of
transformers that benchmarks/peers/run.py makes.

Greedy translations, and beam search with 4 hypotheses as both do it: length penalty 0 (here alpha),
at most 24 tokens, the last of them the end with its own probability, and none for padding.
"""

import contextlib
import json
import operator
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from absl import app, flags

from t2t_keras.data.problem import make_problem
from t2t_keras.decoding.translator import Translator
from t2t_keras.interop.importers.imported import make_run, read_model
from t2t_keras.layers.embedding import sinusoids
from t2t_keras.text.tokenizer import Tokenizer

_DATA = flags.DEFINE_string("shared_data", "corpora", "Folder with multi30k/.")
_LINES = flags.DEFINE_integer("lines", 500, "Lines to translate.", 1)
_FOLDER = flags.DEFINE_string("folder", "", "Where the models are kept; default: nowhere.")
_SHAPES = flags.DEFINE_list("shapes", [], "Names of shapes; default: all.")

_MAKE = Path(__file__).with_name("make_marian.py")
_PEERS = Path(__file__).resolve().parents[2] / "build" / "peers"
_TRAINED_ON = 5000
_OPTIONS = "special:model.yml"
SHAPES = {
    "opus": dict(
        pieces=3000,
        encoder_layers=3,
        decoder_layers=3,
        d_model=128,
        encoder_ffn_dim=512,
        encoder_attention_heads=8,
        activation_function="swish",
        scale_embedding=True,
    ),
    "separate": dict(
        pieces=2000,
        encoder_layers=2,
        decoder_layers=4,
        d_model=64,
        encoder_ffn_dim=192,
        encoder_attention_heads=4,
        activation_function="relu",
        scale_embedding=True,
        share_encoder_decoder_embeddings=False,
    ),
    "untied": dict(
        pieces=1500,
        start=True,
        encoder_layers=5,
        decoder_layers=1,
        d_model=96,
        encoder_ffn_dim=256,
        encoder_attention_heads=6,
        activation_function="gelu",
        tie_word_embeddings=False,
    ),
}
_SEARCH = "alpha=0,max_length=24,extra_length=1000"


def main(_) -> None:
    """Prints the table."""
    columns = [
        "source ids equal",
        "greedy ids equal",
        "beam ids equal",
        "largest difference of logits",
    ]
    _row("model", "reference", "lines", *columns)
    _row(*["---"] * 7)
    for name in _SHAPES.value or SHAPES:
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(_FOLDER.value or temporary) / name
            if not (folder / "expected.npz").exists():
                _make(folder, SHAPES[name])
            _compare(f"{name}, folder", folder, folder, "")
            if SHAPES[name]["activation_function"] != "gelu":
                _compare(f"{name}, npz", folder, folder / "model.npz", "marian_")
                for kind, change in (("npz", dict), ("npz, pre-norm", _pre_norm)):
                    _compare_ctranslate2(f"{name}, {kind}", folder, change)


def _make(folder: Path, settings: dict) -> None:
    folder.mkdir(parents=True)
    files = []
    for language in ("en", "de"):
        lines = (
            (Path(_DATA.value) / "multi30k" / f"train.{language}").read_text("utf-8").split("\n")
        )
        files.append(folder / f"text.{language}")
        files[-1].write_text("\n".join(lines[:_TRAINED_ON]), encoding="utf-8")
    settings = json.dumps({"steps": 300} | settings)
    command = [_PEERS / "torch/bin/python", _MAKE, folder, settings, *files, str(_LINES.value)]
    subprocess.run(command, check=True, capture_output=True)


def _imported(model: Path, settings: str) -> Translator:
    problem = make_problem("parallel_text", "source_language=en,target_language=de")
    read = read_model("marian", model, ("en", "de"))
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
        make_run(read, problem, Path(folder) / "run", str(model))
        return Translator.from_run(Path(folder) / "run", decode_hparams=f"{_SEARCH},{settings}")


def _tables(folder: Path, tokenizer: Tokenizer) -> list[np.ndarray]:
    """Returns our id for each of theirs, of the source and of the target; their last is padding."""
    files = [folder / "vocab.json", folder / "target_vocab.json"]
    files[1] = files[files[1].exists()]
    tables = []
    for file, side in zip(files, (tokenizer.source, tokenizer), strict=True):
        ours = side.vocabulary()
        tables.append(
            np.array([ours[piece] for piece in json.loads(file.read_text("utf-8"))], "int32")
        )
    return tables


def _row(*cells: object) -> None:
    print(f"| {' | '.join(map(str, cells))} |", flush=True)


def _translated(translator: Translator, ids: np.ndarray) -> list[list[int]]:
    batches = np.split(ids, range(100, len(ids), 100))
    outputs = (translator.search(batch).ids[:, 0].numpy() for batch in batches)
    return [[int(i) for i in row if i] for output in outputs for row in output]


def _compare(name: str, folder: Path, model: Path, prefix: str) -> None:
    expected = np.load(folder / "expected.npz")
    greedy, beam = (_imported(model, f"beam_size={size}") for size in (1, 4))
    source, target = _tables(folder, greedy.tokenizer)
    lines = expected["lines"].tolist()
    ids = source[expected["ids"]]
    theirs = [[i for i in row if i] for row in ids.tolist()]
    ours = [row.tolist() for row in greedy.tokenizer.source.encode(lines)]
    equal = [sum(map(operator.eq, ours, theirs))]
    for kind, translator in (("greedy", greedy), ("beam", beam)):
        theirs = [[i for i in row if i] for row in target[expected[f"{prefix}{kind}"]].tolist()]
        ours = _translated(translator, ids)
        equal.append(sum(map(operator.eq, ours, theirs)))
    pairs = {
        side: table[expected[f"{side}_ids"]]
        for side, table in (("source", source), ("target", target))
    }
    logits = np.asarray(greedy.models[0](pairs))[:, :, target[:-1]]
    differences = np.abs(logits - expected[f"{prefix}logits"][:, :, :-1])[pairs["target"] != 0]
    _row(name, expected["versions"], len(lines), *equal, f"{differences.max():.1e}")


def _pre_norm(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns a model that normalises embeddings, inputs of sub-layers and outputs of stacks."""
    arrays = {re.sub(r"(_ln_\w+)", r"\1_pre", name): each for name, each in arrays.items()}
    options = json.loads(arrays[_OPTIONS].tobytes()[:-1])
    values = {
        "preprocess": "n",
        "postprocess": "da",
        "postprocess-top": "n",
        "postprocess-emb": "n",
    }
    options |= {f"transformer-{name}": value for name, value in values.items()}
    arrays[_OPTIONS] = np.frombuffer(json.dumps(options).encode() + b"\0", np.int8)
    draw = np.random.default_rng(0).normal
    for side in ("encoder", "decoder"):
        for name in (f"{side}_emb_ln_{{}}_pre", f"{side}_top_ln_{{}}"):
            for around, kind in ((1, "scale"), (0, "bias")):
                values = draw(around, 0.2, (1, options["dim-emb"]))
                arrays[name.format(kind)] = values.astype(np.float32)
    return arrays


def _compare_ctranslate2(name: str, folder: Path, change: Callable) -> None:
    """Compares with CTranslate2's reading of the .npz, which gets Marian's positions as weights."""
    import ctranslate2
    from ctranslate2.converters import MarianConverter

    arrays = change(np.load(folder / "model.npz"))
    np.savez(folder / "changed.npz", **arrays)
    width = arrays["encoder_l1_ffn_W1"].shape[0]
    arrays["Wpos"] = sinusoids(np.arange(512), width, "tensor2tensor")
    np.savez(folder / "positions.npz", **arrays)
    vocabularies = [str(path) for path in sorted(folder.glob("*.vocab.yml"))]
    converter = MarianConverter(str(folder / "positions.npz"), vocabularies)
    theirs = ctranslate2.Translator(converter.convert(str(folder / "ct2"), force=True))
    translator = _imported(folder / "changed.npz", "beam_size=1")
    tokenizer, lines = translator.tokenizer, np.load(folder / "expected.npz")["lines"].tolist()
    encoded = tokenizer.source.encode(lines)
    results = theirs.translate_batch(
        [tokenizer.source.pieces(ids[:-1]) for ids in encoded], beam_size=1, max_decoding_length=23
    )
    ids = np.zeros((len(lines), max(map(len, encoded))), np.int32)
    for row, each in zip(ids, encoded, strict=True):
        row[: len(each)] = each
    ours = [tokenizer.pieces(row[:-1]) for row in _translated(translator, ids)]
    equal = sum(each == result.hypotheses[0] for each, result in zip(ours, results, strict=True))
    _row(name, f"CTranslate2 {ctranslate2.__version__}", len(lines), "", equal, "", "")


if __name__ == "__main__":
    app.run(main)
