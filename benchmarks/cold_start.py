"""Seconds from the start of a command to its end, and where those of a translation go.

    python benchmarks/cold_start.py --output_dir=RUN [--other=CHECKOUT]

Each command runs in fresh processes, those of this checkout and of another in turns. Seconds are of
the processor, user and system, since whatever else runs on the machine counts in those of the
clock; all are medians of `--rounds` rounds. A translation is of one sentence, by the run and by its
export for CTranslate2. Then its parts, in the same way:

    import   Python, TensorFlow, Keras and what of this package needs them
    build    the model
    restore  its weights from the checkpoint
    trace    the graph of the search
    prepare  what TensorFlow does at the first call of the graph
    run      a translation
"""

import collections
import contextlib
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from absl import app, flags

_RUN = flags.DEFINE_string("output_dir", None, "Run that translates.", required=True)
_OTHER = flags.DEFINE_string("other", "", "Another checkout to compare with.")
_SENTENCE = flags.DEFINE_string("sentence", "Two young men play football on a field.", "Source.")
_PARTS = flags.DEFINE_bool("parts", False, "Translate once, in this process; print its parts.")
_ROUNDS = flags.DEFINE_integer("rounds", 5, "Number of rounds; the medians count.", 1)

_ROOT = Path(__file__).resolve().parents[1]
_LOADED = "import sys, t2t_keras; t2t_keras.load_export(sys.argv[1]).translate(sys.argv[2:])"


def main(_) -> None:
    """Prints the tables."""
    if _PARTS.value:
        from t2t_keras.bin.flags import run_command

        run_command(lambda _: None, lambda _: print(json.dumps(_measured())), ["parts"])
        return
    checkouts = {"this": _ROOT} | ({"other": Path(_OTHER.value).resolve()} if _OTHER.value else {})
    run = str(Path(_RUN.value).resolve())
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "text").write_text(f"{_SENTENCE.value}\n", encoding="utf-8")
        ways = {}
        for name, checkout in checkouts.items():
            export, program = f"{folder}/{name}/export", f"{folder}/{name}/ctranslate2"
            exporting = _command("t2t_exporter", f"--output_dir={run}")
            _seconds(checkout, folder, [*exporting, f"--export_dir={export}"])
            other_format = [f"--export_dir={program}", "--format=ctranslate2"]
            _seconds(checkout, folder, [*exporting, *other_format])
            ways[name] = _ways(checkout, run, next(Path(export).iterdir()), program)
        print(f"| seconds | {' | '.join(ways)} |\n|---|{'---|' * len(ways)}")
        for what in ways["this"]:
            seconds = collections.defaultdict(list)
            for _ in range(_ROUNDS.value):
                for name, checkout in checkouts.items():
                    seconds[name].append(_seconds(checkout, folder, ways[name][what]))
            _print_row(what, seconds)
        parts = collections.defaultdict(lambda: collections.defaultdict(list))
        for _ in range(_ROUNDS.value):
            for name, checkout in checkouts.items():
                for part, spent in _parts(checkout, folder, run).items():
                    parts[part][name].append(spent)
    for part, seconds in parts.items():
        _print_row(part, seconds)


def _print_row(what: str, seconds: dict[str, list[float]]) -> None:
    medians = (f"{statistics.median(each):.2f}" for each in seconds.values())
    print(f"| {what} | {' | '.join(medians)} |", flush=True)


def _command(name: str, *arguments: str) -> list[str]:
    return ["-m", f"t2t_keras.bin.{name}", *arguments]


def _ways(checkout: Path, run: str, export: Path, program: str) -> dict[str, list[str]]:
    """Returns the arguments of Python for what is measured, by what it is."""
    text = "--decode_from_file=text", "--decode_to_file=-"
    example = str(checkout / "examples" / "translate_with_savedmodel.py")
    by_program = f"--output_dir={program}", "--engine=ctranslate2"
    return {
        "import t2t_keras": ["-c", "import t2t_keras"],
        "t2t-trainer --help": _command("t2t_trainer", "--help"),
        "t2t-decoder --output_dir=missing": _command("t2t_decoder", "--output_dir=missing"),
        "t2t-decoder --decode_from_file=missing": _command(
            "t2t_decoder", f"--output_dir={run}", "--decode_from_file=missing"
        ),
        "t2t-trainer --problem=missing": _command(
            "t2t_trainer", "--output_dir=new", "--problem=missing", "--hparams_set=transformer_tiny"
        ),
        "t2t-bleu": _command("t2t_bleu", "--translation=text", "--reference=text"),
        "t2t-decoder, one sentence": _command("t2t_decoder", f"--output_dir={run}", *text),
        "t2t-decoder --engine=ctranslate2": _command("t2t_decoder", *by_program, *text),
        "examples/translate_with_savedmodel.py": [example, str(export), _SENTENCE.value],
        "t2t_keras.load_export": ["-c", _LOADED, str(export), _SENTENCE.value],
    }


def _seconds(checkout: Path, folder: str, arguments: list[str]) -> float:
    """Returns the seconds of the processor that Python takes with arguments."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    _output(checkout, folder, arguments)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def _output(checkout: Path, folder: str, arguments: list[str]) -> str:
    """Returns what Python prints with arguments; a command may refuse them."""
    call = [sys.executable, *arguments]
    environment = os.environ | {"PYTHONPATH": str(checkout)}
    done = subprocess.run(
        call, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode not in (0, 2):
        sys.exit(done.stderr)
    return done.stdout


def _parts(checkout: Path, folder: str, run: str) -> dict[str, float]:
    given = f"--output_dir={run}", f"--sentence={_SENTENCE.value}"
    return json.loads(_output(checkout, folder, [__file__, "--parts", *given]))


def _measured() -> dict[str, float]:
    """Translates as t2t-decoder does, and returns the seconds of each part."""
    from t2t_keras.decoding.config import decode_config
    from t2t_keras.decoding.engines.keras import share_cores
    from t2t_keras.decoding.translator import Translator
    from t2t_keras.models import transformer  # noqa: F401
    from t2t_keras.training.checkpoints import tensorflow
    from t2t_keras.training.run_config import RunConfig

    run, sentence = _RUN.value, _SENTENCE.value
    seconds = {"import": time.process_time(), "build": 0.0}

    @contextlib.contextmanager
    def spent_on(part):
        start = time.process_time()
        yield
        seconds[part] = time.process_time() - start

    share_cores(decode_config("", RunConfig.load(run).problem.decoding))
    tensorflow.load_weights = spent_on("restore")(tensorflow.load_weights)
    with spent_on("build"):
        translator = Translator.from_run(run)
    seconds["build"] -= seconds["restore"]
    with spent_on("trace"):
        translator.search.graph.get_concrete_function()
    with spent_on("prepare"):
        translator.translate([sentence])
    with spent_on("run"):
        translator.translate([sentence])
    seconds["prepare"] -= seconds["run"]
    return seconds


if __name__ == "__main__":
    app.run(main)
