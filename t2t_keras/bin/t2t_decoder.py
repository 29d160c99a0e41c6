"""Translate a file, a problem's dev or test set, or what you type; or score translations.

t2t-decoder --output_dir=runs/averaged --decode_from_file=news.en --decode_to_file=news.de
t2t-decoder --output_dir=runs/averaged --eval_use_test_set --results_file=results.jsonl
t2t-decoder --output_dir=runs/averaged --disturb=upper,typos,punctuation
t2t-decoder --output_dir=runs/averaged --score_file=pairs.tsv
t2t-decoder --output_dir=runs/averaged --decode_interactive
t2t-decoder --output_dir=runs/averaged --engine=ctranslate2 --decode_from_file=news.en
zcat news.en.gz | t2t-decoder --output_dir=runs/averaged --decode_from_file=- > news.de

Without an input, it translates the dev set. Give the same command again to continue an interrupted
job.
"""

import dataclasses
import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from t2t_keras.bin.flags import (
    command,
    define_common,
    define_decoding,
    define_engine,
    define_run,
    eval_text,
    forbidden_phrases,
    recorded_run,
    refuse_alone,
    refuse_together,
    require,
)
from t2t_keras.decoding.config import decode_config
from t2t_keras.decoding.line_job import Shard
from t2t_keras.errors import UserError
from t2t_keras.io.files import check_not_stream, check_outputs, is_stream
from t2t_keras.io.flags import Flags
from t2t_keras.io.terminal import interactive_lines, product
from t2t_keras.registry import AUGMENTATIONS, ENGINES, LINE_STAGE_FLAGS, summary
from t2t_keras.text.files import check_readable, check_same_lines, read_text
from t2t_keras.training.checkpoint_files import checkpoint_at

if TYPE_CHECKING:
    from t2t_keras.data.problem import Score
    from t2t_keras.decoding.translator import Translator
    from t2t_keras.training.run_config import RunConfig


def define_flags(flags: Flags) -> None:
    """Adds the flags of the command."""
    flags.group("Model")
    define_common(
        flags, output_dir="Directory of the run, or of an export with --engine=ctranslate2"
    )
    define_common(flags, "checkpoint_path")
    define_engine(flags)
    flags.group("Input")
    flags.path("decode_from_file", "File to translate, one sentence per line; - = standard input")
    flags.path(
        "decode_reference", "Reference translations of --decode_from_file, to compute the score"
    )
    flags.string("shard", "Part of --decode_from_file to translate: 3/100 = the third of 100")
    flags.switch("eval_use_test_set", "Translate and score the problem's test set")
    flags.strings(
        "disturb", "Also score noisy copies of the text: upper,typos,... (--registry_help)"
    )
    flags.switch(
        "decode_interactive", "Translate what you type; after a tab, type the required beginning"
    )
    flags.path("score_file", "File of source<tab>translation to score; - = standard input")
    define_common(flags, "data_dir")
    meaning = "Settings of the test set, as newstest2014=filtered; the others are the run's"
    define_common(flags, problem_config=meaning)
    flags.group("Output")
    flags.path(
        "decode_to_file",
        "File for translations or scores; - = standard output; default: beside the input, or in "
        "decodes/ of the run",
    )
    flags.path("alignment_file", "File for word alignments: source-target, as 0-0 1-2")
    flags.path(
        "attention_file", "File for attention: five NumPy arrays per line, see docs/decoding.md"
    )
    flags.path("results_file", "JSON Lines file to append the score to; t2t-tables reads it")
    flags.group("Decoding")
    define_decoding(flags)
    for name in LINE_STAGE_FLAGS:
        flags.path(name, summary(LINE_STAGE_FLAGS[name]).rstrip("."))
    define_run(flags)


@command(define_flags)
def run(flags: Flags) -> None:
    """Translates or scores as the flags say."""
    shard = Shard.parse(flags.shard) if flags.shard else None
    _check_combination(flags)
    texts = _readable_texts(flags)
    require(flags, "output_dir")
    stored = ENGINES[flags.engine](flags.output_dir, flags.checkpoint_path or None)
    run_config = recorded_run(flags, load=lambda _: stored.run_config)
    if flags.disturb and not run_config.problem.is_plain_text:
        raise UserError(
            f"--disturb is for plain text, but {run_config.problem.name} consists of symbols. "
            f"Leave it out.",
            code="not_text",
        )
    stage_values = _stage_values(flags)
    stages = [LINE_STAGE_FLAGS[name](value) for name, value in stage_values.items()]
    # Paths that no output may replace, besides the texts.
    folders = [flags.output_dir, Path(run_config.data_dir) / run_config.problem.name]
    protected = [path for path in folders if Path(path).is_dir()]
    # The value of a stage may be a file, such as a glossary.
    protected += [value for value in stage_values.values() if Path(value).exists()]
    protected += filter(None, [flags.forbidden_file])
    outputs = filter(None, (flags.decode_to_file, flags.alignment_file, flags.attention_file))
    check_outputs([*texts, *protected], outputs, filter(None, [flags.results_file]))
    has_text = not (flags.decode_interactive or flags.score_file)
    text = _requested_text(flags, run_config) if has_text else None
    # Looked up only once, as training may write newer checkpoints meanwhile.
    ensemble = [checkpoint_at(path) for path in flags.ensemble or ()]
    interactive_settings = stored.interactive_settings if flags.decode_interactive else {}
    defaults = {**stored.defaults, **interactive_settings}
    config = decode_config(flags.decode_hparams, defaults)
    phrases = forbidden_phrases(flags)
    if not flags.decode_interactive:
        stored.share_cores(config)
    # Imports Keras, which takes seconds, after all checks that do not need it.
    from t2t_keras.decoding.file_job import score_file, translate_interactively
    from t2t_keras.decoding.translator import Translator

    translator = Translator.from_stored(stored, config, ensemble, phrases)
    for add_stage in stages:
        translator = add_stage(translator)
    provenance = stored.provenance(ensemble)
    checkpoints = [model["checkpoint"] for model in (provenance, *provenance["ensemble"])]
    # The checkpoint of an export may be unknown.
    runs = [Path(checkpoint).parent for checkpoint in checkpoints if checkpoint]
    protected += [path for path in runs if path.is_dir()]
    if text:
        _translate(flags, run_config, text, shard, translator, provenance, protected)
    elif flags.score_file:
        output = _output_path(flags, flags.score_file, f"{flags.score_file}.scores")
        score_file(translator, flags.score_file, output, provenance, protected)
    else:
        write = functools.partial(print, file=product(), flush=True)
        translate_interactively(translator, interactive_lines("> "), write)


def _check_combination(flags: Flags) -> None:
    """Raises `UserError` if a flag would silently be ignored because of another one."""
    file_flags = ("decode_from_file", "eval_use_test_set", "decode_reference", "results_file")
    line_files = ("prefix_file", "alignment_file", "attention_file")
    refuse_together(
        flags,
        {
            "decode_interactive": (*file_flags, *line_files, "decode_to_file", "score_file"),
            "score_file": (*file_flags, *line_files, "forbidden_file", *LINE_STAGE_FLAGS),
            "eval_use_test_set": ("decode_from_file",),
            "disturb": ("decode_interactive", "score_file", *LINE_STAGE_FLAGS, *line_files),
            "shard": ("decode_reference", "disturb", "results_file"),
        },
    )
    refuse_alone(flags, dict.fromkeys(("decode_reference", "shard"), "decode_from_file"))
    for name in ("results_file", "disturb"):
        if getattr(flags, name) and flags.decode_from_file and not flags.decode_reference:
            raise UserError(
                f"--{name} with --decode_from_file needs --decode_reference.",
                code="conflicting_settings",
            )
    for kind in flags.disturb or ():
        AUGMENTATIONS[kind]  # Raises `UserError` for an unknown name.
    has_own_text = flags.decode_from_file or flags.score_file or flags.decode_interactive
    if flags.decode_reference or not has_own_text:
        for file in (flags.decode_from_file, flags.decode_reference, flags.decode_to_file):
            check_not_stream(file, "Scoring reads all files again")


def _readable_texts(flags: Flags) -> list[str]:
    """Returns the paths of texts in flags; raises `UserError` if one cannot be read."""
    paths = flags.decode_from_file, flags.decode_reference, flags.score_file, flags.prefix_file
    texts = [path for path in paths if path]
    for path in texts:
        if not is_stream(path):
            check_readable(Path(path))
    return texts


def _stage_values(flags: Flags) -> dict[str, str]:
    """Returns the values of the flags that add stages, such as the path of a glossary."""
    return {name: value for name in LINE_STAGE_FLAGS if (value := getattr(flags, name))}


class _Text(NamedTuple):
    """A text to translate."""

    source: str
    reference: str  # "" = none
    name: str  # path of the output, without a suffix
    split: str  # dev, test, or the source's file name


def _requested_text(flags: Flags, run_config: "RunConfig") -> _Text:
    """Returns the text to translate; checks that its reference is line-aligned."""
    source, reference = flags.decode_from_file, flags.decode_reference
    if not source:
        split, *paths = eval_text(flags, run_config)
        decodes = Path(flags.output_dir) / "decodes" / f"{run_config.problem.name}.{split}"
        return _Text(str(paths[0]), str(paths[1]), str(decodes), split)
    if reference:
        # Check this first, since translation takes long.
        check_same_lines({path: len(read_text(Path(path))) for path in (source, reference)})
    name = ".".join([source, run_config.model, run_config.hparams_set, run_config.problem.name])
    return _Text(source, reference, name, Path(source).name)


def _output_path(flags: Flags, source: str, name: str) -> str:
    return flags.decode_to_file or ("-" if is_stream(source) else name)


def _translate(
    flags: Flags,
    run_config: "RunConfig",
    text: "_Text",
    shard: Shard | None,
    translator: "Translator",
    provenance: dict[str, Any],
    protected: list[str | Path],
) -> None:
    """Translates a text, and scores the translations if there is a reference."""
    from t2t_keras.decoding.disturbed import translate_disturbed
    from t2t_keras.decoding.file_job import decodes_name, translate_file

    source, reference, name, split = text
    problem, settings = run_config.problem, dataclasses.asdict(translator.config)
    engine = provenance.get("engine", "")
    if engine:
        settings["engine"] = engine
    name += "".join(f".{Path(path).stem}" for path in _stage_values(flags).values())
    output = _output_path(flags, source, decodes_name(name, translator.config, engine))
    alignments, attention = flags.alignment_file, flags.attention_file
    if shard:
        output, alignments, attention = (
            shard.path(path) if path and not is_stream(path) else path
            for path in (output, alignments, attention)
        )
    if problem.postprocess_by_alignment and reference:
        alignments = alignments or f"{output}.alignments"
    if flags.decode_from_file and not flags.decode_to_file and not is_stream(output):
        hint = "" if reference else " Give --decode_to_file=- to see them here."
        print(f"The translations go to {output}.{hint}", flush=True)
    disturbances = list(dict.fromkeys(flags.disturb or ()))
    result_files = [flags.results_file] * bool(flags.results_file)
    if result_files:
        check_outputs([source, reference, *protected], [output], result_files)
    score = functools.partial(_score_and_record, flags, run_config, split, provenance, settings)
    # t2t-compare reads the manifests of translations stored in the run.
    write_manifest = not (flags.decode_from_file or flags.decode_to_file)
    if disturbances:
        scores = {}
        arguments = source, reference, output, provenance, disturbances, protected
        for files in translate_disturbed(translator, *arguments, write_manifest, result_files):
            scores[files.kind or split] = score(
                files.source, files.reference, files.output, "", files.kind, files.is_new
            )
        print(_score_table(scores), flush=True)
        return
    translate_file(
        translator,
        source,
        output,
        provenance,
        prefixes=flags.prefix_file,
        alignments=alignments,
        attention=attention,
        references=reference,
        inputs=protected,
        shard=shard,
        write_manifest=write_manifest,
    )
    if reference:
        score(source, reference, output, alignments)


def _score_and_record(
    flags: Flags,
    run_config: "RunConfig",
    split: str,
    provenance: dict[str, Any],
    settings: dict[str, Any],
    source: str,
    reference: str,
    output: str,
    alignments: str,
    disturb: str = "",
    is_new: bool = True,
) -> "Score":
    """Scores translations, and adds the result to --results_file if it is new."""
    from t2t_keras.decoding.file_job import first_hypotheses
    from t2t_keras.evaluation.results import append_result, run_result
    from t2t_keras.text.alignment import read_pharaoh

    problem = run_config.problem
    sources, references = read_text(Path(source)), read_text(Path(reference))
    word_alignments = None
    if problem.postprocess_by_alignment:
        word_alignments = list(map(read_pharaoh, read_text(Path(alignments))))
    score = problem.score(first_hypotheses(output, settings), references, sources, word_alignments)
    text = problem.text_name("" if flags.decode_from_file else split, len(references))
    if disturb:
        text = f"{text or split}, {disturb}"
        split, settings = f"{split}.{disturb}", settings | {"disturb": disturb}
    print(f"{text}:\n{score}" if text else score, flush=True)
    if not flags.results_file or not is_new:
        return score
    settings = {
        **settings,
        "ensemble": [model["checkpoint"] for model in provenance["ensemble"]],
        "forbidden": flags.forbidden_file,
        "prefixes": flags.prefix_file,
        **_stage_values(flags),
    }
    result = run_result(run_config, provenance["checkpoint"], split, score, settings, text)
    try:
        append_result(flags.results_file, result)
    except UserError as error:
        raise UserError(
            f"The translations and the score are complete, but: {error}", code=error.code
        ) from error
    print(f"The score is in {flags.results_file}.")
    return score


def _score_table(scores: dict[str, Any]) -> str:
    """Returns a table with the score of each text and its difference from the first text's."""
    rows = {name: score.main[1] for name, score in scores.items()}
    [clean, *_], [metric, *_] = rows.values(), (score.main[0] for score in scores.values())
    width = max(map(len, rows))
    lines = [f"{'':{width}}  {metric:>8}  difference"]
    for name, value in rows.items():
        lines.append(f"{name:{width}}  {value:8.2f}  {value - clean:+10.2f}")
    return "\n".join(lines)


if __name__ == "__main__":
    run()
