"""Seconds from the start of a command to its end, and where they go.

    python experiments/decoding_speed/cold_start.py --output_dir=RUN [--other=CHECKOUT]

Each command runs in fresh processes, in turns for this checkout and another. All figures are
medians of `--rounds` rounds. The run or an export translates one sentence. The first table has the
seconds of the clock, valid if nothing else runs, and of the processor (user and system). The second
has the processor seconds of each part of a translation by TensorFlow:

    import   Python, TensorFlow, Keras and the parts of this package that need them
    build    the model
    restore  its weights from the checkpoint
    trace    the graph of the search
    prepare  TensorFlow's work at the first call of the graph
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
from collections.abc import Callable, Mapping
from pathlib import Path

from absl import app, flags

_RUN = flags.DEFINE_string("output_dir", None, "Run that translates.", required=True)
_OTHER = flags.DEFINE_string("other", "", "Another checkout to compare with.")
_SENTENCE = flags.DEFINE_string("sentence", "Two young men play football on a field.", "Source.")
_PARTS = flags.DEFINE_bool("parts", False, "Only print the seconds of each part of a translation.")
_ROUNDS = flags.DEFINE_integer("rounds", 5, "Number of rounds; the medians count.", 1)

_ROOT = Path(__file__).resolve().parents[2]
_LOAD_EXPORT = "import sys, t2t_keras; t2t_keras.load_export(sys.argv[1]).translate(sys.argv[2:])"


def main(_) -> None:
    """Prints the tables."""
    if _PARTS.value:
        from t2t_keras.bin.flags import run_command

        run_command(lambda _: None, lambda _: print(json.dumps(_measure_parts())), ["parts"])
        return
    roots = {"this": _ROOT} | ({"other": Path(_OTHER.value).resolve()} if _OTHER.value else {})
    with tempfile.TemporaryDirectory() as folder:
        checkouts = {name: _Checkout(root, Path(folder, name)) for name, root in roots.items()}
        _print_table("command: clock / processor", checkouts, _Checkout.commands)
        _print_table("t2t-decoder: processor", checkouts, _Checkout.parts)


class _Checkout:
    """Measures a checkout once: seconds by command, or by part of a translation."""

    def __init__(self, root: Path, folder: Path):
        """Exports the run into the folder, where all commands then run."""
        self._root, self._folder = root, folder
        self._run = f"--output_dir={Path(_RUN.value).resolve()}"
        folder.mkdir()
        (folder / "text").write_text(f"{_SENTENCE.value}\n", encoding="utf-8")
        export = _command("t2t_exporter", self._run)
        self._python(*export, "--export_dir=export")
        self._python(*export, "--export_dir=ctranslate2", "--format=ctranslate2")

    def commands(self) -> Mapping[str, tuple[float, float]]:
        """Returns the seconds of the clock and of the processor of each command."""
        measured = {}
        for command, arguments in self._commands().items():
            before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
            self._python(*arguments)
            seconds = time.perf_counter() - start
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            processor = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
            measured[command] = seconds, processor
        return measured

    def parts(self) -> Mapping[str, tuple[float]]:
        """Returns the processor seconds of each part of a translation."""
        arguments = self._run, f"--sentence={_SENTENCE.value}"
        parts = json.loads(self._python(__file__, "--parts", *arguments).stdout)
        return {part: (seconds,) for part, seconds in parts.items()}

    def _commands(self) -> dict[str, list[str]]:
        """Returns the arguments of Python for each measured command, by its name in the table."""
        text = "--decode_from_file=text", "--decode_to_file=-"
        use_export = "--output_dir=ctranslate2", "--engine=ctranslate2"
        example = str(self._root / "examples" / "translate_with_savedmodel.py")
        export = str(next((self._folder / "export").iterdir()))
        new_run = "--output_dir=new", "--hparams_set=transformer_tiny"
        return {
            "import t2t_keras": ["-c", "import t2t_keras"],
            "t2t-trainer --help": _command("t2t_trainer", "--help"),
            "t2t-decoder --output_dir=missing": _command("t2t_decoder", "--output_dir=missing"),
            "t2t-decoder --decode_from_file=missing": _command(
                "t2t_decoder", self._run, "--decode_from_file=missing"
            ),
            "t2t-trainer --problem=missing": _command("t2t_trainer", *new_run, "--problem=missing"),
            "t2t-bleu": _command("t2t_bleu", "--translation=text", "--reference=text"),
            "t2t-decoder": _command("t2t_decoder", self._run, *text),
            "t2t-decoder, CTranslate2": _command("t2t_decoder", *use_export, *text),
            "examples/translate_with_savedmodel.py": [example, export, _SENTENCE.value],
            "t2t_keras.load_export": ["-c", _LOAD_EXPORT, export, _SENTENCE.value],
        }

    def _python(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs Python; it must fail if an argument names something missing, and only then."""
        call = [sys.executable, *arguments]
        environment = os.environ | {"PYTHONPATH": str(self._root)}
        options = dict(cwd=self._folder, env=environment, capture_output=True, text=True)
        process = subprocess.run(call, check=False, **options)
        must_fail = any(argument.endswith("=missing") for argument in arguments)
        if process.returncode != (2 if must_fail else 0):
            sys.exit(f"{' '.join(call)}: {process.stderr}")
        return process


def _command(name: str, *arguments: str) -> list[str]:
    return ["-m", f"t2t_keras.bin.{name}", *arguments]


def _print_table(
    title: str,
    checkouts: Mapping[str, _Checkout],
    measure: Callable[[_Checkout], Mapping[str, tuple[float, ...]]],
) -> None:
    """Measures the checkouts in turns, and prints the medians."""
    seconds_by_command = collections.defaultdict(lambda: collections.defaultdict(list))
    for _ in range(_ROUNDS.value):
        for name, checkout in checkouts.items():
            for command, seconds in measure(checkout).items():
                seconds_by_command[command][name].append(seconds)
    print(f"\n| {title} | {' | '.join(checkouts)} |\n|---|{'---|' * len(checkouts)}")
    for command, rounds in seconds_by_command.items():
        cells = (
            " / ".join(
                f"{statistics.median(figures):.2f}" for figures in zip(*rounds[name], strict=True)
            )
            for name in checkouts
        )
        print(f"| {command} | {' | '.join(cells)} |", flush=True)


def _measure_parts() -> dict[str, float]:
    """Translates as t2t-decoder does, and returns the seconds of each part."""
    from t2t_keras.decoding.config import decode_config
    from t2t_keras.decoding.keras_engine import share_cores
    from t2t_keras.decoding.translator import Translator
    from t2t_keras.models import transformer  # noqa: F401
    from t2t_keras.training import checkpoints
    from t2t_keras.training.run_config import RunConfig

    run, sentence = _RUN.value, _SENTENCE.value
    seconds = {"import": time.process_time(), "build": 0.0}

    @contextlib.contextmanager
    def timed(part):
        start = time.process_time()
        yield
        seconds[part] = time.process_time() - start

    share_cores(decode_config("", RunConfig.load(run).problem.decoding_defaults))
    checkpoints.load_weights = timed("restore")(checkpoints.load_weights)
    with timed("build"):
        translator = Translator.from_run(run)
    seconds["build"] -= seconds["restore"]
    with timed("trace"):
        translator.search.graph.get_concrete_function()
    with timed("prepare"):
        translator.translate([sentence])
    with timed("run"):
        translator.translate([sentence])
    seconds["prepare"] -= seconds["run"]
    return seconds


if __name__ == "__main__":
    app.run(main)
