"""Translation and scoring of files of any size, as they are read."""

import dataclasses
import math
import sys
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from t2t_keras.data.atomic_file import sha256_of, write_atomically
from t2t_keras.data.problem import Problem
from t2t_keras.data.text_files import read_text
from t2t_keras.decoding.attention_file import attention_records
from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.job_files import STANDARD_STREAM, checked_outputs, is_stream
from t2t_keras.decoding.line_job import Finished, run_line_job
from t2t_keras.decoding.prefix_file import PrefixFile
from t2t_keras.decoding.translation import Hypothesis, PairScore, Translation, one_line
from t2t_keras.decoding.translator import Translator
from t2t_keras.decoding.word_alignment import pharaoh
from t2t_keras.errors import UserError


def translate_file(
    translator: Translator,
    source: str | Path,
    output: str | Path,
    made_by: Mapping[str, Any],
    prefixes: str | Path | None = None,
    alignments: str | Path | None = None,
    attention: str | Path | None = None,
    references: str | Path | None = None,
    spared: Sequence[str | Path] = (),
) -> None:
    """Translates a file line by line into another.

    An output has one line for each of the source's: the translation; with `return_beams` all
    hypotheses, divided by tabs; with `write_beam_scores` each followed by a tab and its score.
    What the translator's problem makes of translations goes to a file beside `output`, where it
    makes something else of them, and with it what it makes of the references. Prints how many lines
    there were, how many blank or cut, and how long it took.

    Args:
      translator: what translates.
      source: UTF-8 text; "-" is standard input, and a device or a pipe is read as that is.
      output: the file to write, "-" is standard output. It appears when it is complete; until then
        it grows beside its name, and the same call after an interruption goes on there. What is no
        regular file, as a named pipe, is written to at once.
      made_by: what else the translations depend on, such as the checkpoints.
      prefixes: a file with a line for each of the source's: how its translation must begin.
      alignments: a file for the word alignments, "0-0 1-2" a line (see `Translator.align`).
      attention: a file for the attention weights (see `attention_file`).
      references: a file with what is right for each of the source's lines.
      spared: more files that are read, and that no output may replace.

    Raises:
      UserError: a file cannot be read or written, an output is one of the files that are read, a
        line is not UTF-8, another process writes the same output, or another job was interrupted at
        it. What is translated so far is kept. Or attention is asked of an ensemble, or where lines
        are split; or the references cannot be finished, as those of a stream.
    """
    config = translator.config
    named = _named_outputs(translator, source, output, alignments, attention, references)
    reads = [source, *spared, *(each for each in (prefixes, references) if each)]
    outputs = checked_outputs(reads, named)
    finished_references = outputs.pop("finished references", None)
    begins = PrefixFile(prefixes, source) if prefixes else None

    def translate(lines: Sequence[str], number: int, progress) -> tuple[dict, Counter]:
        begun = begins.of_lines(number, len(lines)) if begins else [""] * len(lines)
        translations = list(translator.translate_stream(lines, begun, number, progress))
        made = _lines_of_outputs(translator, lines, translations, outputs)
        return made, _translation_counts(lines, translations)

    everything = {
        **made_by,
        "forbidden": list(translator.forbidden),
        "prefixes": sha256_of(Path(prefixes)) if prefixes else "",
        **dataclasses.asdict(config),
    }
    done = run_line_job(source, outputs, everything, translate, config.lines_at_once)
    _report(output, config, done)
    if begins and (surplus := begins.count_after(done.lines)):
        _say(output, f"{prefixes} has {surplus:,} lines more than {source}: they were not used.")
    if finished_references:
        _finish_references(translator.problem, source, references, finished_references)
        _say(output, f"{finished_references}: the references")


def score_file(
    translator: Translator, pairs: str | Path, output: str | Path, made_by: Mapping[str, Any]
) -> None:
    """Scores given translations.

    A line of the output has, divided by tabs: the log-probability of the translation, its number
    of tokens with the end of sentence, its perplexity, and the log-probability of each token.
    Prints the log-probability a token and the perplexity of the whole file.

    Args:
      translator: what scores.
      pairs: UTF-8 text, "source<tab>translation" a line, from where `translate_file` reads.
      output: the file to write, as `translate_file` does; "-" is standard output.
      made_by: what else the scores depend on, such as the checkpoints.

    Raises:
      UserError: as `translate_file`; or a line does not have one tab.
    """

    def score(lines: Sequence[str], number: int, progress) -> tuple[dict, Counter]:
        names = [f"{pairs}:{each}" for each in range(number + 1, number + len(lines) + 1)]
        for name, line in zip(names, lines, strict=True):
            if line.count("\t") != 1:
                raise UserError(
                    f"{name} is not a source, one tab and a translation: it has "
                    f"{line.count(chr(9))} tabs. What was scored before is kept."
                )
        sources, targets = zip(*(line.split("\t") for line in lines), strict=True)
        scores = translator.score(sources, targets, names)
        progress(len(lines))
        counts = Counter(tokens=sum(len(each.token_log_probs) for each in scores))
        # Counts are whole numbers: in millionths, the sum is the same however often it stopped.
        counts["log_prob_e6"] = sum(round(each.log_prob * 1e6) for each in scores)
        return {"scores": [_score_line(each) for each in scores]}, counts

    outputs = checked_outputs([pairs], {"scores": output})
    # No other setting changes a score, and max_input_length may be raised where it was too low.
    everything = {**made_by, "weights_dtype": translator.config.weights_dtype}
    done = run_line_job(pairs, outputs, everything, score, translator.config.lines_at_once)
    tokens = done.counts["tokens"]
    a_token = done.counts["log_prob_e6"] / 1e6 / max(tokens, 1)
    _say(
        output,
        f"{output}: {done.lines:,} pairs, {tokens:,} tokens, log-probability a token "
        f"{a_token:.4f}, perplexity {math.exp(-a_token):.3f}, in {done.seconds:.1f} s",
    )


def first_hypotheses(path: str | Path, config: DecodeConfig) -> list[str]:
    """Returns the best translation of each line of an output of `translate_file`."""
    lines = read_text(Path(path))
    several = config.return_beams or config.write_beam_scores
    return [line.partition("\t")[0] for line in lines] if several else lines


def _named_outputs(
    translator: Translator,
    source: str | Path,
    output: str | Path,
    alignments: str | Path | None,
    attention: str | Path | None,
    references: str | Path | None,
) -> dict[str, str | Path]:
    """Returns what `translate_file` writes, by name; raises `UserError` where it cannot be made."""
    named = {"translations": output}
    if alignments:
        named["alignments"] = alignments
    if attention:
        translator.check_one_model()
        if translator.config.split_long:
            raise UserError(
                f"{attention} gets the attention of whole lines, and split_long=true splits them: "
                f"leave out one of them."
            )
        named["attention"] = attention
    suffix = translator.problem.finished_suffix
    if suffix and not is_stream(output):
        named["finished"] = f"{output}.{suffix}"
        if references:
            if is_stream(source):
                raise UserError(
                    f"References are finished with the lines they belong to, and {source} can be "
                    f"read only once: write it to a file, or leave the references out."
                )
            named["finished references"] = f"{output}.reference.{suffix}"
    return named


def _lines_of_outputs(
    translator: Translator,
    lines: Sequence[str],
    translations: Sequence[Translation],
    outputs: Container[str],
) -> dict[str, Iterable[str | bytes]]:
    """Returns what each output gets for some lines, by name."""
    made = {"translations": [_output_line(each, translator.config) for each in translations]}
    if "finished" in outputs:
        made["finished"] = [each.finished for each in translations]
    if "alignments" in outputs:
        made["alignments"] = map(pharaoh, _alignments(translator, lines, translations))
    if "attention" in outputs:
        made["attention"] = attention_records(translator, lines, translations)
    return made


def _alignments(
    translator: Translator, lines: Sequence[str], translations: Sequence[Translation]
) -> list[Sequence[tuple[int, int]]]:
    """Returns what the translations were finished by, or makes it now."""
    found = [each.alignment for each in translations]
    return translator.align(lines, translations) if None in found else found


def _finish_references(
    problem: Problem, source: str | Path, references: str | Path, output: Path
) -> None:
    right = problem.finished_references(read_text(Path(source)), read_text(Path(references)))
    write_atomically(output, "".join(f"{each}\n" for each in right).encode("utf-8"))


def _translation_counts(lines: Sequence[str], translations: Sequence[Translation]) -> Counter:
    return Counter(
        blank=sum(not line.strip() for line in lines),
        cut=sum(each.cut > 0 for each in translations),
        tokens_cut=sum(each.cut for each in translations),
        prefixes_cut=sum(each.prefix_cut > 0 for each in translations),
        breaks=sum(each.text != one_line(each.text) for each in translations),
    )


def _report(output: str | Path, config: DecodeConfig, done: Finished) -> None:
    """Prints what was translated, and what was not or not quite."""
    counts = done.counts
    text = f"{output}: {done.lines:,} lines, {counts['blank']:,} of them blank, in "
    _say(output, f"{text}{done.seconds:.1f} s ({done.lines_a_second:.1f} lines/s)")
    if counts["cut"]:
        _say(
            output,
            f"{counts['cut']:,} lines had more than max_input_length={config.max_input_length} "
            f"tokens; {counts['tokens_cut']:,} tokens were cut off. --decode_hparams="
            f"split_long=true translates such lines by sentences.",
        )
    if counts["prefixes_cut"]:
        _say(
            output,
            f"{counts['prefixes_cut']:,} prefixes were cut, being longer than their translations "
            f"may be. --decode_hparams=extra_length=100 allows more tokens, if max_length does.",
        )
    if counts["breaks"]:
        _say(
            output,
            f"{counts['breaks']:,} translations held line breaks or tabs, which are spaces in the "
            f"file.",
        )


def _output_line(translation: Translation, config: DecodeConfig) -> str:
    found = translation.hypotheses or (Hypothesis("", 0.0),)
    columns = []
    for hypothesis in found[: config.num_hypotheses]:
        columns.append(one_line(hypothesis.text))
        if config.write_beam_scores:
            columns.append(f"{hypothesis.score:.4f}")
    return "\t".join(columns)


def _score_line(score: PairScore) -> str:
    tokens = len(score.token_log_probs)
    of_tokens = " ".join(f"{each:.4f}" for each in score.token_log_probs)
    return f"{score.log_prob:.4f}\t{tokens}\t{score.perplexity:.3f}\t{of_tokens}"


def _say(output: str | Path, text: str) -> None:
    """Prints, but never among the translations."""
    print(text, file=sys.stderr if str(output) == STANDARD_STREAM else sys.stdout, flush=True)
