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
from t2t_keras.decoding.line_job import JobSummary, Shard, Work, resolve_outputs, run_line_job
from t2t_keras.decoding.lines import encode_text, stage_settings
from t2t_keras.decoding.translation import Hypothesis, PairScore, Translation, one_line, perplexity
from t2t_keras.decoding.translator import Translator
from t2t_keras.errors import UserError
from t2t_keras.io.files import (
    STANDARD_STREAM,
    check_not_stream,
    is_stream,
    sha256_of,
    write_atomically,
)
from t2t_keras.io.terminal import printable
from t2t_keras.special_ids import EOS_ID
from t2t_keras.text.alignment import to_pharaoh
from t2t_keras.text.files import count_lines, is_blank, read_text
from t2t_keras.training.cost import hardware_name

# Lines whose attention weights are in memory together. Weights grow with the square of the length:
# 512 pieces, translated to 512 pieces by the base model, take 150 MB.
_ATTENTION_LINES = 8
_BLANK_IDS = np.array([EOS_ID], np.int32)


def translate_file(
    translator: Translator,
    source: str | Path,
    output: str | Path,
    provenance: Mapping[str, Any],
    prefixes: str | Path = "",
    alignments: str | Path = "",
    attention: str | Path = "",
    references: str | Path = "",
    inputs: Sequence[str | Path] = (),
    shard: Shard | None = None,
    write_manifest: bool = False,
) -> JobSummary:
    """Translates a file line by line into another.

    The output has one line per source line: the translation; with `return_beams` all hypotheses,
    separated by tabs; with `write_beam_scores` a tab and a score after each. If the translator's
    problem postprocesses translations, files next to `output` get postprocessed translations and
    references. Prints the numbers of lines, of blank lines and of cut lines, the time, and the
    reports of the translator's stages.

    Args:
      translator: the translator.
      source: UTF-8 text; "-" is standard input, and a device or a pipe is read as a stream.
      output: file to write; "-" is standard output. It appears when it is complete; until then it
        grows under another name, and the same call after an interruption continues it. Streams,
        such as a named pipe, are written to at once.
      provenance: the origin of the translations, such as the checkpoints.
      prefixes: a file of required beginnings of the translations, line-aligned with the source;
        "" = none, as for the next three.
      alignments: file for the word alignments, lines such as "0-0 1-2" (see `Translator.align`).
      attention: file for the attention weights (see `attention_records`).
      references: a file of references, line-aligned with the source.
      inputs: further files that are read, and folders, such as runs, whose files must stay.
      shard: the part of the source to translate; None = the whole. It does not change file names.
      write_manifest: whether to write `<output>.json`, the origin of the translations, for
        t2t-compare.

    Raises:
      UserError: a file cannot be read or must not be written; a line is not UTF-8; another process
        or an interrupted job writes the same output; attention is requested of an ensemble or with
        split lines; or the source is a stream, and a shard or postprocessed references are
        requested. Finished lines are kept.
    """
    writers = _writers(translator, output, alignments, attention)
    paths = {name: path for name, (path, _) in writers.items()}
    if references and "postprocessed" in paths:
        paths["postprocessed references"] = _references_path(translator, source, output)
    all_inputs = [source, *inputs, *(path for path in (prefixes, references) if path)]
    outputs = resolve_outputs(all_inputs, paths)
    postprocessed_references = outputs.pop("postprocessed references", None)
    prefix_lines = _read_prefixes(prefixes, source) if prefixes else None
    work = _translation_work(translator, writers, prefix_lines)
    settings = {**provenance, **translation_settings(translator, prefixes)}
    if shard:
        settings["shard"] = str(shard)
    manifest = None
    if write_manifest:
        manifest = {"source": sha256_of(Path(source)), "hardware": hardware_name()}
    at_once = translator.config.lines_at_once
    summary = run_line_job(source, outputs, settings, work, at_once, shard, manifest)
    _report(output, translator, summary, provenance.get("checkpoint", ""))
    # `_read_prefixes` has checked the number of lines of a regular source.
    if is_stream(source) and (surplus := len(prefix_lines or ()) - summary.lines) > 0:
        _say(output, f"{prefixes} has {surplus:,} more lines than {source}; they were not used.")
    if postprocessed_references:
        _postprocess_references(translator, source, references, postprocessed_references)
        _say(output, f"{postprocessed_references}: the postprocessed references")
    return summary


def _references_path(translator: Translator, source: str | Path, output: str | Path) -> str:
    """Returns the name of the file for postprocessed references."""
    check_not_stream(source, "Postprocessing references reads the source again")
    return f"{output}.reference.{translator.problem.postprocessed_suffix}"


def _postprocess_references(
    translator: Translator, source: str | Path, references: str | Path, output: Path
) -> None:
    lines = translator.problem.postprocess_references(
        read_text(Path(source)), read_text(Path(references))
    )
    write_atomically(output, "".join(f"{line}\n" for line in lines).encode("utf-8"))


# Returns the lines of an output for source lines and their translations.
_Writer = Callable[[Sequence[str], Sequence[Translation]], Iterable[str | bytes]]


def _translation_work(
    translator: Translator,
    writers: Mapping[str, tuple[str | Path, _Writer]],
    prefix_lines: Sequence[str] | None,
) -> Work:
    """Returns the work of a job that translates lines, for `run_line_job`."""

    def translate(
        lines: Sequence[str], number: int, progress: Callable[[int], object]
    ) -> tuple[dict[str, Iterable[str | bytes]], Counter[str]]:
        prefixes = None if prefix_lines is None else prefix_lines[number : number + len(lines)]
        translations = list(translator.translate_stream(lines, prefixes, number, progress))
        texts = {name: write(lines, translations) for name, (_, write) in writers.items()}
        return texts, _counts(translator, lines, translations)

    return translate


def _writers(
    translator: Translator, output: str | Path, alignments: str | Path, attention: str | Path
) -> dict[str, tuple[str | Path, _Writer]]:
    """Returns, by name, the path of each output of `translate_file` and the writer of its lines."""
    config, problem = translator.config, translator.problem

    def translation_lines(_: Sequence[str], translations: Sequence[Translation]) -> list[str]:
        return [_output_line(translation, config) for translation in translations]

    def alignment_lines(lines: Sequence[str], translations: Sequence[Translation]) -> Iterable[str]:
        known_alignments = [
            translation.alignment
            for translation in translations
            if translation.alignment is not None
        ]
        if len(known_alignments) < len(translations):
            return map(to_pharaoh, translator.align(lines, translations))
        return map(to_pharaoh, known_alignments)

    def postprocessed_lines(_: Sequence[str], translations: Sequence[Translation]) -> list[str]:
        return [translation.postprocessed for translation in translations]

    writers: dict[str, tuple[str | Path, _Writer]] = {"translations": (output, translation_lines)}
    if alignments:
        writers["alignments"] = alignments, alignment_lines
    if attention:
        translator.engine.check_attention()
        if config.split_long:
            raise UserError(
                f"Attention ({attention}) is for whole lines, and split_long=true splits lines: "
                f"leave one out.",
                code="conflicting_settings",
            )
        writers["attention"] = attention, functools.partial(attention_records, translator)
    if problem.postprocessed_suffix and not is_stream(output):
        writers["postprocessed"] = f"{output}.{problem.postprocessed_suffix}", postprocessed_lines
    return writers


def translation_settings(translator: Translator, prefixes: str | Path = "") -> dict[str, Any]:
    """Returns the settings that translations depend on, except model and source, for JSON."""
    return {
        "forbidden": list(translator.forbidden),
        "prefixes": sha256_of(Path(prefixes)) if prefixes else "",
        **dataclasses.asdict(translator.config),
        "stages": stage_settings(translator.stages),
    }


def _read_prefixes(path: str | Path, source: str | Path) -> list[str]:
    check_not_stream(path, "Prefixes are read twice")
    prefixes = read_text(Path(path))
    if not is_stream(source) and (lines := count_lines(Path(source))) != len(prefixes):
        raise UserError(
            f"{path} has {len(prefixes):,} lines, but {source} has {lines:,}. Give one prefix per "
            f"line; it may be blank.",
            code="unequal_counts",
        )
    return prefixes


def score_file(
    translator: Translator,
    pairs: str | Path,
    output: str | Path,
    provenance: Mapping[str, Any],
    inputs: Sequence[str | Path] = (),
) -> None:
    """Scores translations by the model's probabilities.

    A line of the output has, separated by tabs: the log-probability of the translation, its number
    of tokens with the end of sentence, its perplexity, and the log-probability of each token.
    Prints the log-probability per token and the perplexity of the whole file.

    Lines of `pairs` are "source<tab>translation". `translate_file` describes the files,
    `provenance` and the errors.
    """

    def score(
        lines: Sequence[str], number: int, progress: Callable[[int], object]
    ) -> tuple[dict[str, Iterable[str]], Counter[str]]:
        names = [
            f"{pairs}:{line_number}" for line_number in range(number + 1, number + len(lines) + 1)
        ]
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
        # Integers, in millionths, so that the sum does not depend on interruptions.
        counts["log_prob_e6"] = sum(round(score.log_prob * 1e6) for score in scores)
        return {"scores": map(_score_line, scores)}, counts

    outputs = resolve_outputs([pairs, *inputs], {"scores": output})
    # No other setting changes a score: a job may continue with a larger max_input_length.
    settings = {**provenance, "weights_dtype": translator.config.weights_dtype}
    summary = run_line_job(pairs, outputs, settings, score, translator.config.lines_at_once)
    tokens, checkpoint = summary.counts["tokens"], provenance.get("checkpoint", "")
    per_token = summary.counts["log_prob_e6"] / 1e6 / max(tokens, 1)
    _say(
        output,
        f"{output}: {summary.lines:,} pairs, {tokens:,} tokens, log-probability per token "
        f"{per_token:.4f}, perplexity {perplexity(per_token):.3f}, in {summary.seconds:.1f} s"
        + (f", by {checkpoint}" if checkpoint else ""),
    )


def decodes_name(text: str, config: DecodeConfig, engine: str = "") -> str:
    """Returns the file name, in a run, for translations of a text such as "problem.dev".

    `engine` names an engine other than Keras's, such as "ctranslate2 int8".
    """
    engine_part = f"{engine.replace(' ', '.')}." if engine else ""
    return f"{text}.{engine_part}beam{config.beam_size}.alpha{config.alpha:g}.decodes"


def first_hypotheses(path: str | Path, settings: Mapping[str, Any]) -> list[str]:
    """Returns the best translations in a file that `translate_file` wrote with `settings`."""
    lines = read_text(Path(path))
    has_columns = settings.get("return_beams") or settings.get("write_beam_scores")
    return [line.partition("\t")[0] for line in lines] if has_columns else lines


def translate_interactively(
    translator: Translator,
    lines: Iterable[str],
    write_line: Callable[[str], object],
) -> None:
    """Translates line after line until there are no more or Ctrl-C is pressed.

    A line may have a tab and a prefix that its translation must begin with. Shows the translation,
    or all hypotheses with `return_beams` or `write_beam_scores`, and the remarks of the
    translator's stages. Characters that control a terminal are escaped.
    """
    config = translator.config
    with contextlib.suppress(KeyboardInterrupt):
        for line in lines:
            source, _, prefix = line.partition("\t")
            [translation] = translator.translate([source], [prefix])
            for fault, cut in (
                ("line is too long", translation.cut),
                ("prefix is longer than the maximum output length", translation.prefix_cut),
            ):
                if cut:
                    write_line(f"(The {fault}: its last {cut:,} tokens are cut.)")
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
    """Yields the attention for each line and its best translation, as five NumPy arrays.

    They are the pieces of the preprocessed and cut source; the pieces of the translation; and the
    weights `encoder`, `decoder` and `cross` of `AttentionWeights`. A blank line has only the ends
    of sentence. To read a line's record from an open file:

        source, target, encoder, decoder, cross = (np.load(file) for _ in range(5))

    After the last record, `np.load` raises `EOFError`.
    """
    for start in range(0, len(lines), _ATTENTION_LINES):
        chunk = slice(start, start + _ATTENTION_LINES)
        prepared = translator.prepare(lines[chunk])
        sources = [line.parts[0].ids if line.parts else _BLANK_IDS for line in prepared]
        outputs = [
            line.hide(translation.text)
            for line, translation in zip(prepared, translations[chunk], strict=True)
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
        empty=sum(
            not (is_blank(line) or translation.text)
            for line, translation in zip(lines, translations, strict=True)
        ),
        cut=sum(translation.cut > 0 for translation in translations),
        tokens_cut=sum(translation.cut for translation in translations),
        prefixes_cut=sum(translation.prefix_cut > 0 for translation in translations),
        others_taken=sum(translation.rank > 0 for translation in translations),
        breaks=sum(
            one_line(text) != text for text in (translation.text for translation in translations)
        ),
    )
    for stage in translator.stages:
        all_notes = (translation.notes for translation in translations)
        counts += stage.counts(notes[stage.name] for notes in all_notes if stage.name in notes)
    return counts


def _report(
    output: str | Path, translator: Translator, summary: JobSummary, checkpoint: str
) -> None:
    """Prints the size and time of a job, its irregular lines, and the reports of the stages."""
    counts, speed = summary.counts, summary.new_lines / summary.seconds
    size = f"{output}: {summary.lines:,} line{'s' * (summary.lines != 1)}"
    if counts["blank"]:
        size += f", {counts['blank']:,} blank"
    by_checkpoint = f", by {checkpoint}" if checkpoint else ""
    _say(output, f"{size}, in {summary.seconds:.1f} s ({speed:.1f} lines/s){by_checkpoint}")
    max_tokens, tokens_cut = translator.config.max_input_length, f"{counts['tokens_cut']:,}"
    for name, what, consequence in (
        (
            "cut",
            f"Lines longer than max_input_length={max_tokens}",
            f"Tokens cut off: {tokens_cut}. --decode_hparams=split_long=true splits such lines.",
        ),
        (
            "prefixes_cut",
            "Prefixes cut at the maximum output length",
            "--decode_hparams=extra_length=100 allows more tokens, up to max_length.",
        ),
        ("empty", "Empty translations", "The model may have trained too little."),
        ("others_taken", "Less likely hypotheses chosen because they have fewer faults", ""),
        ("breaks", "Translations with line breaks or tabs, now spaces", ""),
    ):
        if counts[name]:
            _say(output, f"{what}: {counts[name]:,}. {consequence}".rstrip())
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
    log_probs = " ".join(f"{log_prob:.4f}" for log_prob in score.token_log_probs)
    tokens = len(score.token_log_probs)
    return f"{score.log_prob:.4f}\t{tokens}\t{score.perplexity:.3f}\t{log_probs}"


def _say(output: str | Path, text: str) -> None:
    """Prints to standard output, or to standard error if `output` is standard output."""
    print(text, file=sys.stderr if str(output) == STANDARD_STREAM else sys.stdout, flush=True)
