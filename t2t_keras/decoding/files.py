"""Translation and scoring of files of any size, as they are read."""

import collections
import contextlib
import dataclasses
import itertools
import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import tqdm

from t2t_keras.data.problem import Problem
from t2t_keras.data.text_files import (
    check_readable,
    decoded,
    line_offsets,
    lines_of,
    read_lines,
    read_text,
)
from t2t_keras.decoding.attention_weights import pharaoh
from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.line_alignment import line_alignments
from t2t_keras.decoding.resumable_output import ResumableOutputs
from t2t_keras.decoding.translation import Hypothesis, PairScore, Translation, one_line
from t2t_keras.decoding.translator import Translator
from t2t_keras.errors import UserError

STANDARD_STREAM = "-"


class StandardOutput:
    """Standard output in the place of a file: nothing is resumed."""

    def __init__(self):
        self.lines_done = 0
        self._counts = Counter()

    def append(
        self, source: Sequence[bytes], lines: Mapping[str, Sequence[str]], counts: Counter
    ) -> None:
        """Writes lines, and adds up counts."""
        [written] = lines.values()
        sys.stdout.buffer.write("".join(f"{line}\n" for line in written).encode("utf-8"))
        sys.stdout.buffer.flush()
        self.lines_done += len(source)
        self._counts.update(counts)

    def finish(self) -> Counter:
        """Returns the sums of the counts."""
        return self._counts

    def close(self) -> None:
        """Has nothing to close."""


def translate_file(
    translator: Translator,
    source: str | Path,
    output: str | Path,
    made_by: Mapping[str, Any],
    prefixes: str | Path | None = None,
    alignments: str | Path | None = None,
    problem: Problem | None = None,
) -> None:
    """Translates a file line by line into another.

    An output has one line for each of the source's: the translation; with `return_beams` all
    hypotheses, divided by tabs; with `write_beam_scores` each followed by a tab and its score.
    Prints how many lines there were, how many blank or cut, and how long it took.

    Args:
      translator: what translates.
      source: UTF-8 text; "-" is standard input.
      output: the file to write, "-" is standard output. It appears when it is complete; until then
        it grows beside its name, and the same call after an interruption goes on there.
      made_by: what else the translations depend on, such as the checkpoint.
      prefixes: a file with a line for each of the source's: how its translation must begin.
      alignments: a file for the word alignments, "0-0 1-2" a line (see `line_alignments`).
      problem: what prepares lines and finishes outputs; those go to a file beside `output`.

    Raises:
      UserError: a file cannot be read or written, a line is not UTF-8, or another job was
        interrupted at the same output. What is translated so far is kept.
    """
    config = translator.config
    begins = itertools.repeat("") if prefixes is None else _prefixes(prefixes, source)

    def translate(lines: list[str], first_number: int, progress) -> tuple[dict, Counter]:
        lines = [problem.prepared(line) for line in lines] if problem else lines
        begun = list(itertools.islice(begins, len(lines)))
        translations = list(translator.translate_stream(lines, begun, first_number, progress))
        made = {"translations": [_output_line(each, config) for each in translations]}
        if "finished" in outputs:
            made["finished"] = [
                problem.finished(line, each.text)
                for line, each in zip(lines, translations, strict=True)
            ]
        if alignments:
            aligned = line_alignments(translator, lines, translations)
            made["alignments"] = [pharaoh(each) for each in aligned]
        return made, _translation_counts(lines, translations)

    outputs = {"translations": output} | ({"alignments": alignments} if alignments else {})
    if problem and problem.finished_suffix and str(output) != STANDARD_STREAM:
        outputs["finished"] = f"{output}.{problem.finished_suffix}"
    with _job(source, outputs, {**made_by, **dataclasses.asdict(config)}) as job:
        # Those of the lines that are done.
        collections.deque(itertools.islice(begins, job.lines_done), maxlen=0)
        counts, lines, seconds = _run(job, source, translate, config.lines_at_once)
    _report(output, config, counts, lines, seconds)


def score_file(
    translator: Translator, pairs: str | Path, output: str | Path, made_by: Mapping[str, Any]
) -> None:
    """Scores given translations.

    A line of the output has, divided by tabs: the log-probability of the translation, its number
    of tokens with the end of sentence, its perplexity, and the log-probability of each token.
    Prints the log-probability a token and the perplexity of the whole file.

    Args:
      translator: what scores.
      pairs: UTF-8 text, "source<tab>translation" a line; "-" is standard input.
      output: the file to write, as `translate_file` does; "-" is standard output.
      made_by: what else the scores depend on, such as the checkpoint.

    Raises:
      UserError: as `translate_file`; or a line does not have one tab.
    """

    def score(lines: list[str], first_number: int, progress) -> tuple[dict, Counter]:
        for number, line in enumerate(lines, first_number + 1):
            if line.count("\t") != 1:
                raise UserError(
                    f"{pairs}:{number} is not a source, one tab and a translation: it has "
                    f"{line.count(chr(9))} tabs. What was scored before is kept."
                )
        sources, targets = zip(*(line.split("\t") for line in lines), strict=True)
        scores = translator.score(sources, targets)
        progress(len(lines))
        counts = Counter(tokens=sum(len(each.token_log_probs) for each in scores))
        # Counts are whole numbers: in millionths, the sum is the same however often it stopped.
        counts["log_prob_e6"] = sum(round(each.log_prob * 1e6) for each in scores)
        return {"scores": [_score_line(each) for each in scores]}, counts

    with _job(pairs, {"scores": output}, made_by) as job:
        counts, lines, seconds = _run(job, pairs, score, translator.config.lines_at_once)
    a_token = counts["log_prob_e6"] / 1e6 / max(counts["tokens"], 1)
    _say(
        output,
        f"{output}: {lines:,} pairs, {counts['tokens']:,} tokens, log-probability a token "
        f"{a_token:.4f}, perplexity {math.exp(-a_token):.3f}, in {seconds:.1f} s",
    )


def first_hypotheses(path: str | Path, config: DecodeConfig) -> list[str]:
    """Returns the best translation of each line of an output of `translate_file`."""
    lines = read_text(Path(path))
    several = config.return_beams or config.write_beam_scores
    return [line.partition("\t")[0] for line in lines] if several else lines


@contextlib.contextmanager
def _job(
    source: str | Path, outputs: Mapping[str, str | Path], made_by: Mapping[str, Any]
) -> Iterator[ResumableOutputs | StandardOutput]:
    to_standard_output = any(str(path) == STANDARD_STREAM for path in outputs.values())
    if to_standard_output and len(outputs) > 1:
        raise UserError("Only a job with one output can write to standard output: name files.")
    if str(source) != STANDARD_STREAM:
        check_readable(Path(source))
    job = StandardOutput() if to_standard_output else ResumableOutputs(outputs, made_by)
    try:
        yield job
    finally:
        job.close()


def _run(
    job: ResumableOutputs | StandardOutput,
    source: str | Path,
    work: Callable[[list[str], int, Callable], tuple[dict[str, list[str]], Counter]],
    lines_at_once: int,
) -> tuple[Counter, int, float]:
    """Works through a source, chunk by chunk.

    Returns:
      The sums of the counts, the number of lines, and the seconds since this start.
    """
    start = time.perf_counter()
    from_stream = str(source) == STANDARD_STREAM
    lines = lines_of(sys.stdin.buffer) if from_stream else read_lines(Path(source))
    if job.lines_done:
        job.check_source(itertools.islice(lines, job.lines_done))
        print(f"{job.lines_done:,} lines were done before.", file=sys.stderr, flush=True)
    with tqdm.tqdm(
        total=None if from_stream else line_offsets(Path(source), 1 << 30)[0],
        initial=job.lines_done,
        unit=" lines",
        leave=False,
        disable=None,
    ) as bar:
        while chunk := list(itertools.islice(lines, lines_at_once)):
            texts = [
                decoded(line, source, number)
                for number, line in enumerate(chunk, job.lines_done + 1)
            ]
            made, counts = work(texts, job.lines_done, bar.update)
            job.append(chunk, made, counts)
            # Blank lines, and sentences of split ones.
            bar.update(job.lines_done - bar.n)
    return job.finish(), job.lines_done, time.perf_counter() - start


def _prefixes(path: str | Path, source: str | Path) -> Iterator[str]:
    check_readable(Path(path))
    number = 0
    for number, line in enumerate(read_lines(Path(path)), 1):
        yield decoded(line, path, number)
    raise UserError(
        f"{path} has {number:,} lines, {source} has more: give a prefix for each line; it may be "
        f"blank."
    )


def _translation_counts(lines: Sequence[str], translations: Sequence[Translation]) -> Counter:
    return Counter(
        blank=sum(not line.strip() for line in lines),
        cut=sum(each.cut > 0 for each in translations),
        tokens_cut=sum(each.cut for each in translations),
        breaks=sum(each.text != one_line(each.text) for each in translations),
    )


def _report(
    output: str | Path, config: DecodeConfig, counts: Counter, lines: int, seconds: float
) -> None:
    """Prints what was translated, and what was not or not quite."""
    text = f"{output}: {lines:,} lines, {counts['blank']:,} of them blank, in {seconds:.1f} s"
    _say(output, f"{text} ({lines / seconds:.1f} lines/s)")
    if counts["cut"]:
        _say(
            output,
            f"{counts['cut']:,} lines had more than max_input_length={config.max_input_length} "
            f"tokens; {counts['tokens_cut']:,} tokens were cut off. --decode_hparams="
            f"split_long=true translates such lines by sentences.",
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
    perplexity = math.exp(-score.log_prob / tokens)
    return f"{score.log_prob:.4f}\t{tokens}\t{perplexity:.3f}\t{of_tokens}"


def _say(output: str | Path, text: str) -> None:
    """Prints, but never among the translations."""
    print(text, file=sys.stderr if str(output) == STANDARD_STREAM else sys.stdout, flush=True)
