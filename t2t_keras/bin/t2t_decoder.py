"""Translates a file, a problem's dev or test set, or what is typed; scores given translations.

t2t-decoder --output_dir=runs/averaged --decode_from_file=news.en --decode_to_file=news.de
t2t-decoder --output_dir=runs/averaged --eval_use_test_set --results_file=results.jsonl
t2t-decoder --output_dir=runs/averaged --score_file=pairs.tsv
t2t-decoder --output_dir=runs/averaged --decode_interactive
zcat news.en.gz | t2t-decoder --output_dir=runs/averaged --decode_from_file=- > news.de

An interrupted job goes on where it stopped when the same command is given again.
"""

import dataclasses
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from absl import flags as absl_flags

from t2t_keras.bin.decoding_flags import define_decoding, ensemble, forbidden
from t2t_keras.bin.flags import FlagValues, run_command
from t2t_keras.bin.terminal import typed_lines
from t2t_keras.data.generated import open_generated
from t2t_keras.data.text_files import read_text
from t2t_keras.decoding.job_files import is_stream
from t2t_keras.errors import UserError


def define_flags(flags: FlagValues) -> None:
    """Adds this command's own flags, named as in tensor2tensor where it has them."""

    def text(name: str, meaning: str) -> None:
        absl_flags.DEFINE_string(name, "", meaning, flag_values=flags)

    def switch(name: str, meaning: str) -> None:
        absl_flags.DEFINE_boolean(name, False, meaning, flag_values=flags)

    text(
        "decode_from_file",
        "Source text, a sentence a line, - is standard input, a pipe is read as such; default: the "
        "problem's dev set.",
    )
    text(
        "decode_to_file",
        "Where the translations or scores go, - is standard output; default: a name made of the "
        "input's, or standard output.",
    )
    text("decode_reference", "References of --decode_from_file; prints BLEU, or F1 of trees.")
    switch("eval_use_test_set", "Translates the problem's test set, not its dev set.")
    switch(
        "decode_interactive",
        "Translates what is typed; what stands behind a tab is how the translation begins.",
    )
    text("score_file", "Scores pairs, source<tab>translation a line, - is standard input.")
    text("alignment_file", "Where word alignments go, as 0-0 1-2, source before target.")
    text("attention_file", "Where attention weights go, five NumPy arrays a line (see README.md).")
    text("checkpoint_path", "Path prefix of a checkpoint; default: the newest of --output_dir.")
    text("results_file", "File of JSON lines that the score is added to, for t2t-tables.")
    define_decoding(flags)


def main(flags: FlagValues) -> None:
    """Translates or scores as the flags say."""
    from t2t_keras.bin.recorded_run import recorded_run
    from t2t_keras.decoding.config import decode_config
    from t2t_keras.decoding.files import score_file
    from t2t_keras.decoding.side_by_side import share_cores
    from t2t_keras.decoding.trained_model import checkpoint_at, identity
    from t2t_keras.decoding.translator import Translator
    from t2t_keras.decoding.typed import translate_typed

    _check_combination(flags)
    record = recorded_run(flags)
    asked = None if flags.decode_interactive or flags.score_file else _text(flags, record)
    # Looked up once: a training that goes on may write another one meanwhile.
    checkpoint = checkpoint_at(flags.checkpoint_path or flags.output_dir)
    others = [checkpoint_at(path) for path in ensemble(flags)]
    made_by = {**identity(checkpoint), "ensemble": [identity(path) for path in others]}
    config = decode_config(flags.decode_hparams, record.problem.decoding)
    if not flags.decode_interactive:
        share_cores(config)
    translator = Translator.from_run(flags.output_dir, checkpoint, config, others, forbidden(flags))
    if flags.decode_interactive:
        write = functools.partial(print, flush=True)
        translate_typed(translator, typed_lines("> "), write)
    elif flags.score_file:
        score_file(
            translator, flags.score_file, _output(flags, flags.score_file, "scores"), made_by
        )
    else:
        _translate(flags, record, asked, translator, made_by)


class _Text(NamedTuple):
    """What is to be translated: a file, its references if there are any, the output's name."""

    source: str
    reference: str
    output: str


def _translate(
    flags: FlagValues, record, asked: _Text, translator, made_by: dict[str, Any]
) -> None:
    from t2t_keras.decoding.files import first_hypotheses, translate_file
    from t2t_keras.decoding.word_alignment import read_pharaoh

    config, problem = translator.config, record.problem
    output = _output(flags, asked.output, f"beam{config.beam_size}.alpha{config.alpha:g}.decodes")
    alignments = flags.alignment_file
    if problem.finished_by_alignment and asked.reference:
        alignments = alignments or f"{output}.alignments"
    translate_file(
        translator,
        asked.source,
        output,
        made_by,
        flags.prefix_file or None,
        alignments or None,
        flags.attention_file or None,
        references=asked.reference or None,
        spared=[flags.forbidden_file] if flags.forbidden_file else [],
    )
    if not asked.reference:
        return
    sources, references = (read_text(Path(path)) for path in (asked.source, asked.reference))
    aligned = None
    if problem.finished_by_alignment:
        aligned = list(map(read_pharaoh, read_text(Path(alignments))))
    score = problem.score(first_hypotheses(output, config), references, sources, aligned)
    name = problem.text_name(_split(flags), len(references))
    print(f"{name}:\n{score}" if name else score, flush=True)
    if flags.results_file:
        settings = {
            **dataclasses.asdict(config),
            "ensemble": [each["checkpoint"] for each in made_by["ensemble"]],
            "forbidden": flags.forbidden_file,
            "prefixes": flags.prefix_file,
        }
        _add_result(flags, record, made_by["checkpoint"], score, settings, name)


def _check_combination(flags: FlagValues) -> None:
    """Raises `UserError` where one flag would silently be ignored beside another."""
    of_a_file = ("decode_from_file", "eval_use_test_set", "decode_reference", "results_file")
    more = ("prefix_file", "alignment_file", "attention_file")
    for one, others in (
        ("decode_interactive", (*of_a_file, *more, "decode_to_file", "score_file")),
        ("score_file", (*of_a_file, *more, "forbidden_file")),
        ("eval_use_test_set", ("decode_from_file",)),
    ):
        for other in others:
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
    is_scored = flags.decode_reference or not (
        flags.decode_from_file or flags.score_file or flags.decode_interactive
    )
    files = (flags.decode_from_file, flags.decode_reference, flags.decode_to_file)
    if is_scored and any(is_stream(file) for file in files if file):
        raise UserError(
            "What is scored must be in a file, as the problem's dev and test sets are and what has "
            "a --decode_reference: let --decode_from_file, --decode_reference and --decode_to_file "
            "name files."
        )


def _text(flags: FlagValues, record) -> _Text:
    if not flags.decode_from_file:
        split = _split(flags)
        generated = open_generated(record.problem, flags.data_dir or record.data_dir)
        source, reference = generated.text_paths(split)
        name = Path(flags.output_dir) / "decodes" / f"{record.problem.name}.{split}"
        return _Text(str(source), str(reference), str(name))
    name = ".".join([flags.decode_from_file, record.model, record.hparams_set, record.problem.name])
    if is_stream(flags.decode_from_file):
        name = "-"
    if flags.decode_reference:
        # Before the work, not after it.
        sources, references = (
            read_text(Path(path)) for path in (flags.decode_from_file, flags.decode_reference)
        )
        if len(sources) != len(references):
            raise UserError(
                f"{flags.decode_from_file} has {len(sources)} lines and {flags.decode_reference} "
                f"has {len(references)}: line N of one must belong to line N of the other."
            )
    return _Text(flags.decode_from_file, flags.decode_reference, name)


def _split(flags: FlagValues) -> str:
    """Returns the split to translate, "" where it is a file."""
    if flags.decode_from_file:
        return ""
    return "test" if flags.eval_use_test_set else "dev"


def _output(flags: FlagValues, name: str, suffix: str) -> str:
    return flags.decode_to_file or ("-" if is_stream(name) else f"{name}.{suffix}")


def _add_result(flags: FlagValues, record, checkpoint: str, score, settings, text: str) -> None:
    """Adds the score to --results_file, with what made it."""
    from t2t_keras.tables.results import append_result
    from t2t_keras.tables.run_result import run_result

    split = Path(flags.decode_from_file).name or _split(flags)
    result = run_result(record, checkpoint, split, score, settings, text)
    try:
        append_result(flags.results_file, result)
    except UserError as error:
        raise UserError(f"The translations and the score are complete, but: {error}") from error
    print(f"The score is in {flags.results_file}.")


def run(argv: Sequence[str] | None = None) -> None:
    """Runs the command."""
    run_command(define_flags, main, argv)


if __name__ == "__main__":
    run()
