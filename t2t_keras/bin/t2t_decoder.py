"""Translates a file, a problem's dev or test set, or what is typed.

t2t-decoder --output_dir=runs/averaged --decode_from_file=news.en --decode_to_file=news.de
t2t-decoder --output_dir=runs/averaged --eval_use_test_set --results_file=results.jsonl
t2t-decoder --output_dir=runs/averaged --decode_interactive
"""

import contextlib
import dataclasses
import functools
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path

from absl import flags as absl_flags

from t2t_keras.bin.flags import FlagValues, run_command
from t2t_keras.data.generated import open_generated
from t2t_keras.data.text_files import read_text
from t2t_keras.errors import UserError


def define_flags(flags: FlagValues) -> None:
    """Adds this command's own flags, named as in tensor2tensor."""

    def text(name: str, meaning: str) -> None:
        absl_flags.DEFINE_string(name, "", meaning, flag_values=flags)

    def switch(name: str, meaning: str) -> None:
        absl_flags.DEFINE_boolean(name, False, meaning, flag_values=flags)

    text("decode_from_file", "Source text, a sentence a line; default: the problem's dev set.")
    text("decode_to_file", "Where the translations go; default: a name made of the input's.")
    text("decode_reference", "Reference translations of --decode_from_file; prints BLEU.")
    switch("eval_use_test_set", "Translates the problem's test set, not its dev set.")
    switch("decode_interactive", "Translates what is typed.")
    text("checkpoint_path", "Path prefix of a checkpoint; default: the newest of --output_dir.")
    text("results_file", "File of JSON lines that the score is added to, for t2t-tables.")
    text("decode_hparams", 'Decoding settings, "beam_size=4,alpha=0.6,extra_length=50,...".')


def main(flags: FlagValues) -> None:
    """Translates as the flags say."""
    from t2t_keras.bin.recorded_run import recorded_run
    from t2t_keras.decoding.files import translate_to_file
    from t2t_keras.decoding.translator import Translator
    from t2t_keras.training.checkpoints import newest_checkpoint

    _check_combination(flags)
    record = recorded_run(flags)
    if not flags.decode_interactive:
        sources, references, name = _text(flags, record)

    # Looked up once: a training that goes on may write another one meanwhile.
    checkpoint = flags.checkpoint_path or newest_checkpoint(flags.output_dir)
    translator = Translator.from_run(flags.output_dir, checkpoint, flags.decode_hparams)
    if flags.decode_interactive:
        _interactive(translator)
        return
    config = translator.config
    default = f"{name}.beam{config.beam_size}.alpha{config.alpha:g}.decodes"
    lines = translate_to_file(translator, sources, flags.decode_to_file or default)
    if references is not None:
        score = record.problem.score(lines, references)
        print(score, flush=True)
        if flags.results_file:
            _add_result(flags, record, checkpoint, score, config)


def _check_combination(flags: FlagValues) -> None:
    """Raises `UserError` where one flag would silently be ignored beside another."""
    for one, other in (
        ("decode_interactive", "decode_from_file"),
        ("decode_interactive", "decode_to_file"),
        ("decode_interactive", "eval_use_test_set"),
        ("decode_from_file", "eval_use_test_set"),
        ("decode_interactive", "results_file"),
    ):
        if getattr(flags, one) and getattr(flags, other):
            raise UserError(f"--{one} and --{other} exclude each other: leave one out.")
    if flags.decode_reference and not flags.decode_from_file:
        raise UserError(
            "--decode_reference belongs to --decode_from_file; the problem's dev and test sets "
            "are scored against their own references."
        )
    if flags.results_file and flags.decode_from_file and not flags.decode_reference:
        raise UserError(
            "--results_file takes scores: give --decode_reference, the reference translations of "
            "--decode_from_file."
        )


def _text(flags: FlagValues, record) -> tuple[list[str], list[str] | None, str]:
    """Returns source lines, references where there are any, and how to begin the output's name."""
    if not flags.decode_from_file:
        split = "test" if flags.eval_use_test_set else "dev"
        generated = open_generated(record.problem, flags.data_dir or record.data_dir)
        name = Path(flags.output_dir) / "decodes" / f"{record.problem.name}.{split}"
        return *generated.text(split), str(name)
    sources = read_text(flags.decode_from_file)
    name = ".".join([flags.decode_from_file, record.model, record.hparams_set, record.problem.name])
    if not flags.decode_reference:
        return sources, None, name
    references = read_text(flags.decode_reference)
    # Before the work, not after it.
    if len(sources) != len(references):
        raise UserError(
            f"{flags.decode_from_file} has {len(sources)} lines and {flags.decode_reference} has "
            f"{len(references)}: line N of one must belong to line N of the other."
        )
    return sources, references, name


def _add_result(flags: FlagValues, record, checkpoint: str, score, config) -> None:
    """Adds the score to --results_file, with what made it."""
    from t2t_keras.tables.results import append_result
    from t2t_keras.tables.run_result import run_result

    split = Path(flags.decode_from_file).name or ("test" if flags.eval_use_test_set else "dev")
    result = run_result(record, checkpoint, split, score, dataclasses.asdict(config))
    try:
        append_result(flags.results_file, result)
    except UserError as error:
        raise UserError(f"The translations and the score are complete, but: {error}") from error
    print(f"The score is in {flags.results_file}.")


def _interactive(translator) -> None:
    """Reads from the terminal, with editing and history where Python has readline."""
    from t2t_keras.decoding.files import translate_typed

    with contextlib.suppress(ImportError):
        importlib.import_module("readline")
    sys.stdin.reconfigure(errors="surrogateescape")
    prompt = "> " if sys.stdin.isatty() else ""
    if prompt:
        print("Type a sentence and press Enter; Ctrl-D ends.")
    translate_typed(translator, lambda: input(prompt), functools.partial(print, flush=True))


def run(argv: Sequence[str] | None = None) -> None:
    """Runs the command."""
    run_command(define_flags, main, argv)


if __name__ == "__main__":
    run()
