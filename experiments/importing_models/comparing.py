"""What the checks of models from other toolkits share: lines, our answers, and the line printed.

A toolkit answers in its own environment and leaves an `.npz` file: arrays of its ids by the names
source_N, greedy_N and beam_N for line N from 0 on, and logits_N, float32 [length, its ids], of the
greedy output of some lines when each position has seen those before it.
"""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import sentencepiece
from absl import flags

from t2t_keras.environment import prepare_tensorflow

prepare_tensorflow()

_LINES_AT_ONCE = 50


_TEXT = flags.DEFINE_string("text", "corpora", "Folder of text, which has Multi30k.")
_LINES = flags.DEFINE_integer("lines", 500, "Lines to translate.")
_LOGITS = flags.DEFINE_integer("lines_with_logits", 100, "Lines whose logits are compared.")
_ONLY = flags.DEFINE_list("only", [], "Kinds of models; default: all.")
_WIDTH = flags.DEFINE_integer("width", 64, "Width of the models.")
_LAYERS = flags.DEFINE_integer("layers", 2, "Layers of the encoder and of the decoder.")
_PIECES = flags.DEFINE_integer("pieces", 1500, "Pieces of the SentencePiece model.")
_RULE = flags.DEFINE_string("normalization", "nmt_nfkc", "SentencePiece's normalization.")


def multi30k() -> Path:
    """Returns the folder of the text."""
    return Path(_TEXT.value).resolve() / "multi30k"


def lines() -> list[str]:
    """Returns the lines to translate."""
    path = multi30k() / "test_2016_flickr.en"
    return path.read_text(encoding="utf-8").splitlines()[: _LINES.value]


def lines_with_logits() -> str:
    """Returns the number of lines whose logits are compared."""
    return str(_LOGITS.value)


def sizes() -> tuple[int, int]:
    """Returns d_model, half of d_ff, and the number of layers."""
    return _WIDTH.value, _LAYERS.value


def chosen(kinds: Sequence[str]) -> list[tuple[int, str]]:
    """Returns the kinds that are asked for, with their numbers."""
    return [pair for pair in enumerate(kinds) if pair[1] in (_ONLY.value or kinds)]


def write(path: Path, lines: Sequence[str]) -> None:
    """Writes lines of text."""
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def segment_training_text(work: Path) -> dict[str, list[str]]:
    """Makes `spm.model` of the training text, and returns that by language, in pieces."""
    paths = {code: multi30k() / f"train.{code}" for code in ("en", "de")}
    sentencepiece.SentencePieceTrainer.train(
        input=list(paths.values()),
        model_prefix=str(work / "spm"),
        vocab_size=_PIECES.value,
        normalization_rule_name=_RULE.value,
        minloglevel=2,
    )
    return {
        code: segmented(work, path.read_text(encoding="utf-8").splitlines())
        for code, path in paths.items()
    }


def segmented(work: Path, lines: Sequence[str]) -> list[str]:
    """Returns lines in pieces of `spm.model`, with spaces between."""
    model = sentencepiece.SentencePieceProcessor(model_file=str(work / "spm.model"))
    return [" ".join(pieces) for pieces in model.encode(list(lines), out_type=str)]


def run_toolkit(peers: str, toolkit: str, *arguments: str | Path, log: Path) -> str:
    """Runs a program of this folder with the Python of a toolkit's environment.

    Args:
      peers: folder of environments.
      toolkit: name of the environment.
      arguments: the program and its arguments.
      log: file that its standard error goes to.

    Returns:
      What it prints.
    """
    python = Path(peers).expanduser() / toolkit / "bin" / "python"
    # -P: programs here are called as the packages that they check.
    command = [python, "-P", Path(__file__).parent / arguments[0], *arguments[1:]]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": ""}
    with log.open("a", encoding="utf-8") as errors:
        return subprocess.run(
            list(map(str, command)),
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            check=True,
            env=environment,
        ).stdout


def compare(
    model: str,
    reference: str,
    run: Path,
    lines: Sequence[str],
    answers: Path,
    order: Sequence[int],
    decoding: str,
) -> str:
    """Returns a row of the table of README.md.

    Args:
      model: what was imported.
      reference: the toolkit and its version.
      run: the imported run.
      lines: the source text.
      answers: see the module.
      order: their ids in our order.
      decoding: our settings of beam search, with which it is theirs.
    """
    from t2t_keras.decoding.engine import pad_rows
    from t2t_keras.decoding.translator import Translator

    theirs = np.load(answers)
    ours = np.argsort(order)  # By their ids.
    beam = Translator.from_run(run, decode_hparams=f"{decoding},alpha=0")
    greedy = Translator.from_run(run, decode_hparams=f"{decoding},alpha=0,beam_size=1")
    numbers = range(len(lines))
    sources = beam.tokenizer.source.encode(lines)
    equal = dict.fromkeys(("source", "greedy", "beam"), 0)
    for number, source in enumerate(sources):
        read = source if beam.models[0].config.source_end else source[:-1]
        equal["source"] += np.array_equal(read, ours[theirs[f"source_{number}"]])
    by_length = sorted(numbers, key=lambda number: len(sources[number]))
    for start in range(0, len(lines), _LINES_AT_ONCE):
        batch = by_length[start : start + _LINES_AT_ONCE]
        source = pad_rows([sources[number] for number in batch])
        for kind, translator in (("greedy", greedy), ("beam", beam)):
            found = translator.search(source).ids.numpy()[:, 0]
            for number, ids in zip(batch, found, strict=True):
                expected = ours[theirs[f"{kind}_{number}"]]
                equal[kind] += np.array_equal(ids[: len(expected)], expected)
    largest = 0.0
    for number in numbers:
        if f"logits_{number}" in theirs:
            target = ours[theirs[f"greedy_{number}"]][None]
            inputs = {"source": sources[number][None], "target": target}
            found = beam.models[0](inputs).numpy()[0]
            difference = np.abs(found - theirs[f"logits_{number}"][:, order])
            largest = max(largest, float(difference.max()))
    counts = " | ".join(f"{count} of {len(lines)}" for count in equal.values())
    return f"| {model} | {reference} | {len(lines)} | {counts} | {largest:.1e} |"


HEADER = (
    "| model | reference | lines | source ids equal | greedy ids equal | beam ids equal "
    "| largest difference of logits |\n|---|---|---|---|---|---|---|"
)
