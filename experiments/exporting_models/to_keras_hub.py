"""Does KerasHub give what a run gives? Writes a preset of the run, and compares on lines of text.

    python experiments/exporting_models/to_keras_hub.py RUN

prints a row for each of Keras's backends. Seconds are the best of three, when all is compiled; in
brackets those of processors, which other work on the machine changes less.
"""

import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from absl import app, flags

_TEXT = flags.DEFINE_string(
    "text", "corpora/multi30k/test_2016_flickr.en", "File of lines to translate."
)
_LINES = flags.DEFINE_integer("lines", 500, "Lines to translate.")
_BATCH = flags.DEFINE_integer("batch_size", 50, "Lines that KerasHub translates at once.")
_BACKENDS = flags.DEFINE_list("backends", ["tensorflow", "jax"], "Backends of Keras.")
_DTYPE = flags.DEFINE_string("dtype", "float32", "Of the stored weights.")
_FOLDER = flags.DEFINE_string("folder", "", "Set for the processes of the backends.")
_ROUNDS = 3
# They would fill a disk.
_LOGITS_OF_ONE_IN = 10


def main(arguments: list[str]) -> None:
    """Translates, and has each backend compare."""
    if _FOLDER.value:
        _compare(Path(_FOLDER.value))
        return
    if len(arguments) != 2:
        raise app.UsageError("Expected one argument, the folder of a run.")
    import subprocess

    with tempfile.TemporaryDirectory() as folder:
        seconds = _translate(arguments[1], Path(folder))
        print("| backend | lines | ids equal | largest difference of logits | s | ours, s |")
        print("|---|---|---|---|---|---|", flush=True)
        for backend in _BACKENDS.value:
            row = subprocess.run(
                [sys.executable, *sys.argv, f"--folder={folder}"],
                env=os.environ | {"KERAS_BACKEND": backend},
                stdout=subprocess.PIPE,
                text=True,
                check=True,
            ).stdout.splitlines()[-1]
            print(f"{row} {seconds} |", flush=True)


def _translate(run: str, folder: Path) -> str:
    """Writes the preset and our greedy outputs; returns how long translating takes."""
    from t2t_keras.decoding.engine import pad_rows
    from t2t_keras.decoding.translator import Translator
    from t2t_keras.serving.formats import write_format

    translator = Translator.from_run(run, decode_hparams="beam_size=1")
    write_format("keras_hub", translator, folder / "preset", _DTYPE.value)
    lines = _lines()
    source = translator.tokenizer.source.encode(lines)
    answers = {}
    for batch in _batches([len(ids) for ids in source]):
        some = pad_rows([source[number] for number in batch])
        target = translator.search(some).ids.numpy()[:, 0]
        logits = translator.models[0]({"source": some, "target": target}).numpy()
        for number, ids, scores in zip(batch, target, logits, strict=True):
            length = np.count_nonzero(ids)
            answers[f"ids_{number}"] = ids[:length]
            if number % _LOGITS_OF_ONE_IN == 0:
                answers[f"logits_{number}"] = scores[:length]
    np.savez(folder / "answers.npz", lengths=[len(ids) for ids in source], **answers)
    return _best_seconds(lambda: translator.translate(lines))


def _compare(folder: Path) -> None:
    """Prints the row of a backend, but for our seconds."""
    import keras
    import keras_hub

    import t2t_keras.interop.keras_hub  # noqa: F401 (registers what the preset needs)

    lines, answers = _lines(), np.load(folder / "answers.npz")
    task = keras_hub.models.Seq2SeqLM.from_preset(str(folder / "preset"))
    batches, equal, largest = _batches(answers["lengths"]), 0, 0.0
    for batch in batches:
        given = task.preprocessor.generate_preprocess([lines[number] for number in batch])
        generate = task.make_generate_function()
        found = keras.ops.convert_to_numpy(generate(given, stop_token_ids=[1])["decoder_token_ids"])
        read = np.zeros_like(found)
        for row, number in zip(read, batch, strict=True):
            ids = answers[f"ids_{number}"]
            row[1 : len(ids)] = ids[:-1]
        logits = keras.ops.convert_to_numpy(task({**given, "decoder_token_ids": read}))
        for number, ids, scores in zip(batch, found, logits, strict=True):
            equal += np.array_equal(ids[np.nonzero(ids)], answers[f"ids_{number}"])
            if (ours := answers.get(f"logits_{number}")) is not None:
                largest = max(largest, float(np.abs(scores[: len(ours)] - ours).max()))
    seconds = _best_seconds(
        lambda: [task.generate([lines[number] for number in batch]) for batch in batches]
    )
    counts = f"{len(lines)} | {equal} of {len(lines)} | {largest:.1e} | {seconds} |"
    print(f"| {keras.config.backend()} | {counts}")


def _lines() -> list[str]:
    text = Path(_TEXT.value).read_text(encoding="utf-8").splitlines()
    return [line for line in text if line.strip()][: _LINES.value]


def _batches(lengths) -> list[np.ndarray]:
    """Returns the numbers of the lines of each batch: those of like lengths together."""
    return np.split(
        np.argsort(lengths, kind="stable"), range(_BATCH.value, len(lengths), _BATCH.value)
    )


def _best_seconds(work) -> str:
    seconds = []
    for _ in range(1 + _ROUNDS):
        start = time.perf_counter(), time.process_time()
        work()
        seconds.append((time.perf_counter() - start[0], time.process_time() - start[1]))
    wall, processors = map(min, zip(*seconds[1:], strict=True))
    return f"{wall:.2f} ({processors:.2f})"


if __name__ == "__main__":
    app.run(main)
