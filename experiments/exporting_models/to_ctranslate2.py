"""A run beside what CTranslate2 makes of it: ids, scores, BLEU, megabytes, seconds.

    python experiments/exporting_models/to_ctranslate2.py --output_dir=RUN \
        --sources=dev.en,test.en --references=dev.de,test.de [--parts=ids,alpha,sizes,start,speed]

Parts:
    ids     lines whose ids are equal, and the largest difference of scores of such. Where ids of a
            greedy search differ, what the run's own model finds each of the two first different
            symbols to have in log-probability: the nearer, the less it takes.
    alpha   which length^alpha, CTranslate2's own penalty, comes nearest to ours with alpha 0.6
    sizes   weights of each type: megabytes (10^6 bytes), and BLEU of the first text
    start   seconds from the start of `t2t-decoder` to the translation of one sentence
    speed   sentences a second, 32 at once, of the first 512 lines of the first text; in turns
"""

import functools
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import sacrebleu
from absl import app, flags

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

_PARTS = ["ids", "alpha", "sizes", "start", "speed"]
_RUN = flags.DEFINE_string("output_dir", None, "The run.", required=True)
_SOURCES = flags.DEFINE_list("sources", None, "Texts to translate.", required=True)
_REFERENCES = flags.DEFINE_list("references", None, "Their translations.", required=True)
_CHOSEN = flags.DEFINE_list("parts", _PARTS, "What to measure.")
_LINES = flags.DEFINE_integer("lines", 0, "Most lines of a text; 0 = all.")
_ROUNDS = flags.DEFINE_integer("rounds", 5, "Of what is timed.")
_TOKENIZE = flags.DEFINE_string("tokenize", "13a", "Of sacreBLEU; none for tokenised text.")

_STORED = ("float32", "bfloat16", "int8")
_DTYPES = ("float32", "bfloat16", "float16", "int8", "int8_float32", "int8_bfloat16")
_WIDE = "beam_size=4,alpha=0.6"


def main(_) -> None:
    """Measures the chosen parts."""
    from t2t_keras.decoding.config import DecodeConfig
    from t2t_keras.decoding.keras_engine import share_cores

    share_cores(DecodeConfig())
    measure = dict(zip(_PARTS, (_ids, _alpha, _sizes, _start, _speed), strict=True))
    with tempfile.TemporaryDirectory() as folder:
        for part in _CHOSEN.value:
            print(f"\n## {part}\n", flush=True)
            measure[part](Path(folder))


@functools.cache
def _text(path: str) -> list[str]:
    return Path(path).read_text(encoding="utf-8").split("\n")[:-1][: _LINES.value or None]


@functools.cache
def _keras(settings: str):
    from t2t_keras.decoding.translator import Translator

    return Translator.from_run(_RUN.value, decode_hparams=settings)


def _exported(folder: Path, settings: str, dtype: str = "float32"):
    from t2t_keras.decoding.translator import Translator
    from t2t_keras.serving.formats import write_format

    if not (folder / dtype).exists():
        write_format("ctranslate2", _keras(""), folder / dtype, dtype)
    return Translator.from_run(folder / dtype, None, settings, engine="ctranslate2")


def _outputs(translator, lines: list[str]) -> list[tuple[tuple[int, ...], float]]:
    """Returns ids and score of the best output for each line."""
    from t2t_keras.decoding.engine import batches_by_length, parallel_batches
    from t2t_keras.special_ids import EOS_ID, PADDING_ID

    engine, found = translator.engine, {}
    parts = [source.parts[0] for source in translator.prepare(lines)]

    def search(batch):
        return engine.outputs([parts[n] for n in batch], [parts[0][:0]] * len(batch), batch)

    lengths = dict(enumerate(map(len, parts)))
    batches = batches_by_length(lengths, translator.config, engine.batches_at_once)
    for batch, outputs in parallel_batches(search, batches, engine.batches_at_once):
        found.update(zip(batch, (each[0] for each in outputs), strict=True))
    special = {PADDING_ID, EOS_ID}
    return [
        (tuple(int(i) for i in found[n].ids if i not in special), float(found[n].score))
        for n in range(len(lines))
    ]


def _ids(folder: Path) -> None:
    print("| text | search | lines | ids equal | largest difference of scores |")
    print("|---|---|---|---|---|")
    for settings in ("beam_size=1,alpha=0", "beam_size=4,alpha=0", _WIDE):
        for path in _SOURCES.value:
            lines = _text(path)
            both = [
                _outputs(each, lines) for each in (_keras(settings), _exported(folder, settings))
            ]
            same = [(ours, its) for ours, its in zip(*both, strict=True) if ours[0] == its[0]]
            most = max(abs(ours[1] - its[1]) for ours, its in same)
            print(
                f"| {path} | {settings} | {len(lines):,} | {len(same):,} | {most:.1e} |", flush=True
            )
            if settings.startswith("beam_size=1"):
                _explain(lines, *both)


def _explain(lines: list[str], ours: list, its: list) -> None:
    translator = _keras("beam_size=1,alpha=0")
    for line, (one, _), (other, _) in zip(lines, ours, its, strict=True):
        if one != other:
            [source] = [each.parts[0] for each in translator.prepare([line])]
            targets = [np.int32([*ids, 1]) for ids in (one, other)]
            first = next(
                n for n, pair in enumerate(zip(*targets, strict=False)) if len(set(pair)) > 1
            )
            found = dict(translator.engine.log_probs([source] * 2, targets))
            print(f"  {found[0][first]:.6f} {found[1][first]:.6f} at {first}: {line}", flush=True)


def _bleu(translated: list[str]) -> float:
    references = _text(_REFERENCES.value[0])
    return sacrebleu.corpus_bleu(translated, [references], tokenize=_TOKENIZE.value).score


def _alpha(folder: Path) -> None:
    import ctranslate2

    from t2t_keras.interop.exporters.ctranslate2 import unique_pieces

    lines, tokenizer = _text(_SOURCES.value[0]), _keras(_WIDE).tokenizer
    expected = [ids for ids, _ in _outputs(_keras(_WIDE), lines)]

    def row(name: str, found: list) -> None:
        same = sum(one == other for one, other in zip(found, expected, strict=True))
        print(f"| {name} | {same:,} of {len(lines):,} | {_bleu(tokenizer.decode(found)):.2f} |")

    print("| | ids equal | BLEU |\n|---|---|---|")
    row("Keras, alpha=0.6", expected)
    row(
        "engine ctranslate2, alpha=0.6",
        [ids for ids, _ in _outputs(_exported(folder, _WIDE), lines)],
    )
    alone = ctranslate2.Translator(str(folder / "float32"), inter_threads=2, intra_threads=1)
    source_names, names = map(unique_pieces, (tokenizer.source, tokenizer))
    sources = [[source_names[i] for i in ids[:-1]] for ids in tokenizer.source.encode(lines)]
    numbers = {name: number for number, name in enumerate(names)}
    for alpha in np.arange(11) / 10:
        options = dict(beam_size=4, max_batch_size=2048, batch_type="tokens")
        found = alone.translate_batch(sources, length_penalty=alpha, **options)
        ids = [tuple(numbers[name] for name in each.hypotheses[0]) for each in found]
        row(f"CTranslate2 alone, length_penalty={alpha:.1f}", ids)


def _sizes(folder: Path) -> None:
    from t2t_keras.serving.signatures import StoredWeight, model_weights, rounded_weights

    lines = _text(_SOURCES.value[0])
    print("| weights | MB | BLEU |\n|---|---|---|")

    def row(name: str, size: int, translator) -> None:
        score = _bleu([each.text for each in translator.translate(lines)])
        print(f"| {name} | {size / 1e6:.1f} | {score:.2f} |", flush=True)

    for dtype in _STORED:
        translator = _keras(_WIDE)
        stored = [StoredWeight(each.numpy(), dtype) for each in model_weights(translator)]
        size = sum(
            v.numpy().nbytes for each in stored for v in (each.stored, each.scale) if v is not None
        )
        with rounded_weights(translator, dtype):
            row(f"SavedModel, {dtype}", size, translator)
    size = sum(each.numpy().nbytes for each in model_weights(translator)) // 2
    row("weights_dtype=bfloat16", size, _keras(f"{_WIDE},weights_dtype=bfloat16"))
    for dtype in _DTYPES:
        translator = _exported(folder, _WIDE, dtype)
        row(f"CTranslate2, {dtype}", (folder / dtype / "model.bin").stat().st_size, translator)


def _start(folder: Path) -> None:
    _exported(folder, "", "int8")
    command = [sys.executable, "-m", "t2t_keras.bin.t2t_decoder", "--decode_from_file=-"]
    line, seconds = f"{_text(_SOURCES.value[0])[0]}\n", {"ctranslate2": [], "keras": []}
    for _ in range(_ROUNDS.value):
        for engine, taken in seconds.items():
            run = folder / "int8" if engine == "ctranslate2" else _RUN.value
            start = time.perf_counter()
            options = [f"--output_dir={run}", f"--engine={engine}"]
            subprocess.run(
                [*command, *options], input=line, text=True, capture_output=True, check=True
            )
            taken.append(time.perf_counter() - start)
    for engine, taken in seconds.items():
        print(f"{engine}: {statistics.median(taken):.2f} s")


def _speed(folder: Path) -> None:
    from measuring import seconds_in_turns

    lines, chunks = _text(_SOURCES.value[0])[:512], f"{_WIDE},lines_at_once=32"
    ways = {
        "ctranslate2, int8": _exported(folder, chunks, "int8"),
        "ctranslate2, float32": _exported(folder, chunks),
        "keras, bfloat16": _keras(f"{chunks},weights_dtype=bfloat16"),
        "keras, float32": _keras(chunks),
    }
    work = {name: functools.partial(each.translate, lines) for name, each in ways.items()}
    seconds = seconds_in_turns(work, _ROUNDS.value)
    print("| engine | sentences a second | of keras, bfloat16 |\n|---|---|---|")
    for name, taken in seconds.items():
        # Round by round: whatever else runs slows one as the other.
        ratios = [one / other for one, other in zip(seconds["keras, bfloat16"], taken, strict=True)]
        speed = len(lines) / statistics.median(taken)
        print(f"| {name} | {speed:.1f} | {statistics.median(ratios):.2f} |")


if __name__ == "__main__":
    app.run(main)
