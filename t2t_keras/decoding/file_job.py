"""Translation and scoring of files of any size."""

import contextlib
import dataclasses
import functools
import io
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.line_job import JobSummary, Shard, resolve_outputs, run_line_job
from t2t_keras.decoding.lines import encode_text, stage_settings
from t2t_keras.decoding.translation import Hypothesis, PairScore, Translation, one_line, perplexity
from t2t_keras.decoding.translator import Translator
from t2t_keras.errors import UserError
from t2t_keras.io.files import STANDARD_STREAM, is_stream, sha256_of, write_atomically
from t2t_keras.io.terminal import printable
from t2t_keras.special_ids import EOS_ID
from t2t_keras.text.alignment import pharaoh
from t2t_keras.text.files import count_lines, is_blank, read_text
from t2t_keras.training.cost import hardware_name

# Weights grow with the square of the length: of the base model, a line of 512 pieces and as long a
# translation have 150 MB.
_ATTENTION_LINES = 8
_BLANK = np.array([EOS_ID], np.int32)


def translate_file(
    translator: Translator,
    source: str | Path,
    output: str | Path,
    provenance: Mapping[str, Any],
    prefixes: str | Path = "",
    alignments: str | Path = "",
    attention: str | Path = "",
    references: str | Path = "",
    reads: Sequence[str | Path] = (),
    shard: Shard | None = None,
    write_manifest: bool = False,
) -> JobSummary:
    """Translates a file line by line into another.

    An output has one line for each of the source's: the translation; with `return_beams` all
    hypotheses, separated by tabs; with `write_beam_scores` each followed by a tab and its score.
    If the translator's problem postprocesses translations, files beside `output` get the
    postprocessed translations and references. Prints the number of lines, of blank and of cut ones,
    the time, and the reports of the translator's stages.

    Args:
      translator: translates.
      source: UTF-8 text; "-" is standard input, and a device or a pipe is read as such.
      output: file to write, "-" is standard output. It appears when it is complete; until then it
        grows beside its name, and the same call after an interruption continues it. Streams, such
        as a named pipe, are written to at once.
      provenance: the origin of the translations, such as the checkpoints.
      prefixes: a file with a line for each of the source's, with which its translation must begin;
        "" = none, as for the next three.
      alignments: file for the word alignments, "0-0 1-2" a line (see `Translator.align`).
      attention: file for the attention weights (see `attention_records`).
      references: a file with a reference for each of the source's lines.
      reads: more files that are read, and folders, such as runs, whose own files must stay.
      shard: the part of the source to translate; None = the whole. Outputs are named as given.
      write_manifest: whether to write `<output>.json`, the origin of the translations, for
        t2t-compare.

    Raises:
      UserError: a file cannot be read or must not be written, a line is not UTF-8, another process
        or an interrupted job writes the same output, attention is requested of an ensemble or with
        split lines, or postprocessed references or a shard of a stream. Finished lines are kept.
    """
    makers = _makers(translator, output, alignments, attention)
    paths = {name: path for name, (path, _) in makers.items()}
    if references and "postprocessed" in paths:
        paths["postprocessed references"] = _references_path(translator, source, output)
    inputs = [source, *reads, *(path for path in (prefixes, references) if path)]
    outputs = resolve_outputs(inputs, paths)
    postprocessed_references = outputs.pop("postprocessed references", None)
    prefix_lines = _read_prefixes(prefixes, source) if prefixes else []

    def translate(
        lines: Sequence[str], number: int, progress: Callable[[int], object]
    ) -> tuple[dict[str, Iterable[str | bytes]], Counter[str]]:
        some_prefixes = prefix_lines[number : number + len(lines)] if prefixes else None
        translations = list(translator.translate_stream(lines, some_prefixes, number, progress))
        made = {name: make(lines, translations) for name, (_, make) in makers.items()}
        return made, _counts(translator, lines, translations)

    settings = {**provenance, **translation_settings(translator, prefixes)}
    if shard:
        settings["shard"] = str(shard)
    at_once = translator.config.lines_at_once
    manifest = None
    if write_manifest:
        manifest = {"source": sha256_of(Path(source)), "hardware": hardware_name()}
    done = run_line_job(source, outputs, settings, translate, at_once, shard, manifest)
    _report(output, translator, done, provenance.get("checkpoint", ""))
    # The prefixes for a file were counted before.
    if (surplus := len(prefix_lines) - done.lines) > 0 and is_stream(source):
        _say(output, f"{prefixes} has {surplus:,} lines more than {source}: they were not used.")
    if postprocessed_references:
        _postprocess_references(translator, source, references, postprocessed_references)
        _say(output, f"{postprocessed_references}: the references")
    return done


def _references_path(translator: Translator, source: str | Path, output: str | Path) -> str:
    """Returns the name of the file for postprocessed references."""
    if is_stream(source):
        raise UserError(
            f"References are postprocessed with their sources, and {source} can be read only "
            f"once: write it to a file, or leave the references out.",
            code="not_a_file",
        )
    return f"{output}.reference.{translator.problem.postprocessed_suffix}"


def _postprocess_references(
    translator: Translator, source: str | Path, references: str | Path, output: Path
) -> None:
    lines = translator.problem.postprocess_references(
        read_text(Path(source)), read_text(Path(references))
    )
    write_atomically(output, "".join(f"{line}\n" for line in lines).encode("utf-8"))


# Returns the lines of an output, from those of the source and their translations.
_Maker = Callable[[Sequence[str], Sequence[Translation]], Iterable[str | bytes]]


def _makers(
    translator: Translator, output: str | Path, alignments: str | Path, attention: str | Path
) -> dict[str, tuple[str | Path, _Maker]]:
    """Returns the path of each output of `translate_file` and the maker of its lines, by name."""
    config, problem = translator.config, translator.problem

    def translated(_: Sequence[str], translations: Sequence[Translation]) -> list[str]:
        return [_output_line(translation, config) for translation in translations]

    def aligned(lines: Sequence[str], translations: Sequence[Translation]) -> Iterable[str]:
        known = [each.alignment for each in translations if each.alignment is not None]
        if len(known) < len(translations):
            return map(pharaoh, translator.align(lines, translations))
        return map(pharaoh, known)

    makers: dict[str, tuple[str | Path, _Maker]] = {"translations": (output, translated)}
    if alignments:
        makers["alignments"] = alignments, aligned
    if attention:
        translator.engine.check_attention()
        if config.split_long:
            raise UserError(
                f"The attention of whole lines ({attention}) and split_long=true exclude each "
                f"other: leave one out.",
                code="conflicting_settings",
            )
        makers["attention"] = attention, functools.partial(attention_records, translator)
    if problem.postprocessed_suffix and not is_stream(output):
        path = f"{output}.{problem.postprocessed_suffix}"
        makers["postprocessed"] = path, lambda _, found: [each.postprocessed for each in found]
    return makers


def translation_settings(translator: Translator, prefixes: str | Path = "") -> dict[str, Any]:
    """Returns the settings that translations depend on, besides model and source, for JSON."""
    return {
        "forbidden": list(translator.forbidden),
        "prefixes": sha256_of(Path(prefixes)) if prefixes else "",
        **dataclasses.asdict(translator.config),
        "stages": stage_settings(translator.stages),
    }


def _read_prefixes(path: str | Path, source: str | Path) -> list[str]:
    if is_stream(path):
        raise UserError(
            f"Prefixes must be in a regular file, got {path}: they are read twice.",
            code="not_a_file",
        )
    prefixes = read_text(Path(path))
    if not is_stream(source) and (lines := count_lines(Path(source))) != len(prefixes):
        raise UserError(
            f"{path} has {len(prefixes):,} lines, {source} has {lines:,}: give a prefix for each "
            f"line; it may be blank.",
            code="unequal_counts",
        )
    return prefixes


def score_file(
    translator: Translator,
    pairs: str | Path,
    output: str | Path,
    provenance: Mapping[str, Any],
    reads: Sequence[str | Path] = (),
) -> None:
    """Scores given translations.

    A line of the output has, separated by tabs: the log-probability of the translation, its number
    of tokens with the end of sentence, its perplexity, and the log-probability of each token.
    Prints the log-probability per token and the perplexity of the whole file.

    `pairs` have "source<tab>translation" a line. All files, `provenance` and errors are as of
    `translate_file`.
    """

    def score(
        lines: Sequence[str], number: int, progress: Callable[[int], object]
    ) -> tuple[dict[str, Iterable[str]], Counter[str]]:
        names = [f"{pairs}:{at}" for at in range(number + 1, number + len(lines) + 1)]
        for name, line in zip(names, lines, strict=True):
            if line.count("\t") != 1:
                raise UserError(
                    f"{name}: expected source<tab>translation, got {line.count(chr(9))} tabs.",
                    code="bad_line",
                )
        sources, targets = zip(*(line.split("\t") for line in lines), strict=True)
        scores = translator.score(sources, targets, names)
        progress(len(lines))
        counts = Counter(tokens=sum(len(score.token_log_probs) for score in scores))
        # Integers, in millionths: the sum is the same however often the job was interrupted.
        counts["log_prob_e6"] = sum(round(score.log_prob * 1e6) for score in scores)
        return {"scores": map(_score_line, scores)}, counts

    outputs = resolve_outputs([pairs, *reads], {"scores": output})
    # No other setting changes a score; max_input_length may be raised to continue.
    settings = {**provenance, "weights_dtype": translator.config.weights_dtype}
    done = run_line_job(pairs, outputs, settings, score, translator.config.lines_at_once)
    tokens, checkpoint = done.counts["tokens"], provenance.get("checkpoint", "")
    per_token = done.counts["log_prob_e6"] / 1e6 / max(tokens, 1)
    _say(
        output,
        f"{output}: {done.lines:,} pairs, {tokens:,} tokens, log-probability per token "
        f"{per_token:.4f}, perplexity {perplexity(per_token):.3f}, in {done.seconds:.1f} s"
        + (f", by {checkpoint}" if checkpoint else ""),
    )


def decodes_name(text: str, config: DecodeConfig, engine: str = "") -> str:
    """Returns the name under which translations of a text, "problem.dev", are stored in a run.

    `engine` names another one than Keras's, as "ctranslate2 int8".
    """
    made_by = f"{engine.replace(' ', '.')}." if engine else ""
    return f"{text}.{made_by}beam{config.beam_size}.alpha{config.alpha:g}.decodes"


def first_hypotheses(path: str | Path, settings: Mapping[str, Any]) -> list[str]:
    """Returns the best translation of each line that `translate_file` wrote with some settings."""
    lines = read_text(Path(path))
    several = settings.get("return_beams") or settings.get("write_beam_scores")
    return [line.partition("\t")[0] for line in lines] if several else lines


def translate_interactively(
    translator: Translator,
    lines: Iterable[str],
    write_line: Callable[[str], object],
) -> None:
    """Translates line after line until there are no more or Ctrl-C is pressed.

    Behind a tab, a line has the prefix with which its translation must begin. With `return_beams`
    or `write_beam_scores`, all hypotheses are shown; then the remarks of the translator's stages.
    Characters that control a terminal are not shown.
    """
    config = translator.config
    with contextlib.suppress(KeyboardInterrupt):
        for line in lines:
            source, _, prefix = line.partition("\t")
            [translation] = translator.translate([source], [prefix])
            for what, cut in (
                ("line is too long", translation.cut),
                ("prefix is longer than an output may be", translation.prefix_cut),
            ):
                if cut:
                    write_line(f"(The {what}: its last {cut:,} tokens are cut.)")
            if config.return_beams or config.write_beam_scores:
                for hypothesis in translation.hypotheses:
                    write_line(f"{hypothesis.score:.4f}\t{printable(hypothesis.text)}")
            else:
                write_line(printable(translation.postprocessed))
            for stage in translator.stages:
                if stage.name in translation.notes:
                    for remark in stage.remarks(translation.notes[stage.name]):
                        write_line(printable(remark))


def attention_records(
    translator: Translator, lines: Sequence[str], translations: Sequence[Translation]
) -> Iterator[bytes]:
    """Yields for each line five NumPy arrays, the attention for its best translation.

    They are the pieces of the preprocessed and cut source; the pieces of its translation; and the
    weights `encoder`, `decoder` and `cross` of `AttentionWeights`. A blank line has the ends of
    sentence alone. A file of such records is read by

        source, target, encoder, decoder, cross = (np.load(file) for _ in range(5))

    for each line; after the last one, `np.load` raises `EOFError`.
    """
    for start in range(0, len(lines), _ATTENTION_LINES):
        some = slice(start, start + _ATTENTION_LINES)
        prepared = translator.prepare(lines[some])
        sources = [line.parts[0].ids if line.parts else _BLANK for line in prepared]
        outputs = [
            line.hide(translation.text)
            for line, translation in zip(prepared, translations[some], strict=True)
        ]
        targets = encode_text(outputs, translator.tokenizer)
        for weights in translator.attention_of_ids(sources, targets):
            record = io.BytesIO()
            pieces = np.array(weights.source), np.array(weights.target)
            for array in (*pieces, weights.encoder, weights.decoder, weights.cross):
                np.save(record, array, allow_pickle=False)
            yield record.getvalue()


def _counts(
    translator: Translator, lines: Sequence[str], translations: Sequence[Translation]
) -> Counter[str]:
    counts = Counter(
        blank=sum(map(is_blank, lines)),
        cut=sum(each.cut > 0 for each in translations),
        tokens_cut=sum(each.cut for each in translations),
        prefixes_cut=sum(each.prefix_cut > 0 for each in translations),
        others_taken=sum(each.rank > 0 for each in translations),
        breaks=sum(each.text != one_line(each.text) for each in translations),
    )
    for stage in translator.stages:
        counts += stage.counts(
            each.notes[stage.name] for each in translations if stage.name in each.notes
        )
    return counts


def _report(output: str | Path, translator: Translator, done: JobSummary, checkpoint: str) -> None:
    """Prints the size and time of a job, its irregular lines, and the reports of the stages."""
    counts, speed = done.counts, done.new_lines / done.seconds
    lines = f"{output}: {done.lines:,} lines, {counts['blank']:,} of them blank"
    made_by = f", by {checkpoint}" if checkpoint else ""
    _say(output, f"{lines}, in {done.seconds:.1f} s ({speed:.1f} lines/s){made_by}")
    for name, changed in {
        "cut": f"lines had more than max_input_length={translator.config.max_input_length} tokens; "
        f"{counts['tokens_cut']:,} tokens were cut off. --decode_hparams=split_long=true "
        f"translates such lines by sentences.",
        "prefixes_cut": "prefixes were longer than their translations may be, and were cut. "
        "--decode_hparams=extra_length=100 allows more tokens, unless max_length is reached.",
        "others_taken": "translations are not the likeliest hypothesis; another had fewer faults.",
        "breaks": "translations had line breaks or tabs, which became spaces.",
    }.items():
        if counts[name]:
            _say(output, f"{counts[name]:,} {changed}")
    for stage in translator.stages:
        for text in stage.report(counts):
            _say(output, text)


def _output_line(translation: Translation, config: DecodeConfig) -> str:
    columns = []
    hypotheses = translation.hypotheses or (Hypothesis("", 0.0),)
    for hypothesis in hypotheses[: config.num_hypotheses]:
        columns.append(one_line(hypothesis.text))
        if config.write_beam_scores:
            columns.append(f"{hypothesis.score:.4f}")
    return "\t".join(columns)


def _score_line(score: PairScore) -> str:
    of_tokens = " ".join(f"{log_prob:.4f}" for log_prob in score.token_log_probs)
    tokens = len(score.token_log_probs)
    return f"{score.log_prob:.4f}\t{tokens}\t{score.perplexity:.3f}\t{of_tokens}"


def _say(output: str | Path, text: str) -> None:
    """Prints, but not among the translations."""
    print(text, file=sys.stderr if str(output) == STANDARD_STREAM else sys.stdout, flush=True)
