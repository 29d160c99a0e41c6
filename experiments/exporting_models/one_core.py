"""Do other programs decode on one core as the run does, and how large and fast are they?

    python experiments/exporting_models/one_core.py --output_dir=runs/averaged
        [--text=corpora] [--lines=500] [--formats=litert,onnx,ctranslate2]

Decodes lines of Multi30k's dev set greedily, one at a time, on one core: with the translator, whose
search is that of the SavedModel, and with what is exported in each format and dtype, in turns.
Prints a row for each: lines whose ids are the translator's, megabytes of the file, or of the
float32 weights, milliseconds of the core's time for a line, and BLEU.
"""

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from absl import app, flags

from t2t_keras.environment import prepare_tensorflow

prepare_tensorflow()

_RUN = flags.DEFINE_string("output_dir", None, "Run, of English to German.", required=True)
_TEXT = flags.DEFINE_string("text", "corpora", "Folder of text, which has Multi30k.")
_LINES = flags.DEFINE_integer("lines", 500, "Lines to translate.", 1)
_FORMATS = flags.DEFINE_list("formats", ["litert", "onnx", "ctranslate2"], "Formats to compare.")


def main(_) -> None:
    """Exports to a temporary folder, decodes, and prints the table."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    import tensorflow as tf

    from t2t_keras.decoding.translator import Translator
    from t2t_keras.metrics import bleu
    from t2t_keras.registry import EXPORT_FORMATS
    from t2t_keras.serving.formats import write_format

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    translator = Translator.from_run(_RUN.value, decode_hparams="beam_size=1")
    lines, references = (_multi30k(code) for code in ("en", "de"))
    sources = translator.tokenizer.source.encode(lines)
    weights = sum(each.numpy().nbytes for each in translator.models[0].weights)
    ways = {"Translator": (weights, lambda ids: translator.search(ids).ids.numpy()[:, 0])}
    with tempfile.TemporaryDirectory() as folder:
        for name in _FORMATS.value:
            for dtype in EXPORT_FORMATS[name].dtypes:
                path = write_format(name, translator, Path(folder) / f"{name}-{dtype}", dtype)
                ways[f"{name} {dtype}"] = _FILES[name](path)
        for _, decode in ways.values():
            decode(sources[0][None])  # What is made at the first call is made now.
        found = {name: [] for name in ways}
        seconds = dict.fromkeys(ways, 0.0)
        for ids in sources:
            for name, (_, decode) in ways.items():
                start = time.process_time()
                found[name] += decode(ids[None]).tolist()
                seconds[name] += time.process_time() - start
    print("| way | lines | ids equal | MB | ms | BLEU |\n|---|---|---|---|---|---|")
    for name, (size, _) in ways.items():
        equal = sum(map(lambda a, b: a == b, found[name], found["Translator"]))
        score = bleu(translator.tokenizer.decode(found[name]), references).bleu
        ms = seconds[name] / len(lines) * 1e3
        print(f"| {name} | {len(lines)} | {equal} | {size / 1e6:.1f} | {ms:.1f} | {score:.2f} |")


def _multi30k(code: str) -> list[str]:
    path = Path(_TEXT.value) / "multi30k" / f"val.{code}"
    return path.read_text(encoding="utf-8").splitlines()[: _LINES.value]


def _litert(folder: Path) -> tuple[int, Callable[[np.ndarray], np.ndarray]]:
    from ai_edge_litert.interpreter import Interpreter

    path = folder / "model.tflite"
    decode = Interpreter(str(path), num_threads=1).get_signature_runner()
    return path.stat().st_size, lambda ids: decode(ids=ids)["translation"]


def _onnx(folder: Path) -> tuple[int, Callable[[np.ndarray], np.ndarray]]:
    import onnxruntime

    path, options = folder / "model.onnx", onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options)
    return path.stat().st_size, lambda ids: session.run(None, {"ids": ids})[0]


def _ctranslate2(folder: Path) -> tuple[int, Callable[[np.ndarray], np.ndarray]]:
    from t2t_keras.decoding.translator import Translator
    from t2t_keras.special_ids import EOS_ID

    engine = Translator.from_run(folder, None, "beam_size=1", engine="ctranslate2").engine
    size = (folder / "model.bin").stat().st_size
    return size, lambda ids: np.array([[*engine.outputs(ids, [[]], [0])[0][0].ids, EOS_ID]])


_FILES = {"litert": _litert, "onnx": _onnx, "ctranslate2": _ctranslate2}


if __name__ == "__main__":
    app.run(main)
