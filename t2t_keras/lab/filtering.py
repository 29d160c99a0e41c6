"""Keeps the pairs of a noisy corpus, or of a teacher's translations, that models find likely."""

import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from t2t_keras.data.chunks import ExampleChunk
from t2t_keras.data.filters import check_direction
from t2t_keras.decoding.line_job import read_manifest, resolve_outputs, run_line_job
from t2t_keras.decoding.translator import Translator
from t2t_keras.errors import UserError
from t2t_keras.io.files import as_json, check_not_stream, sha256_of
from t2t_keras.text.files import check_same_lines, count_lines, is_blank, read_lines, read_text

# Reasons that replace missing scores in the file of scores.
_BLANK_PAIR, _LONG_PAIR = "blank", "too long"
_LINES_AT_ONCE = 100_000
# Number of lines that the language check samples.
_SAMPLED_LINES = 1000


class FilterResult(NamedTuple):
    """The result of a filter.

    Attributes:
      files: the written files: source, target.
      pairs: number of pairs of the text.
      num_kept: number of written pairs.
      left_out: numbers of pairs without a score, by reason; these are never written.
      lowest_score: lowest score of the written pairs.
    """

    files: tuple[Path, Path]
    pairs: int
    num_kept: int
    left_out: Mapping[str, int]
    lowest_score: float

    def __str__(self) -> str:
        unlikely = self.pairs - self.num_kept - sum(self.left_out.values())
        reasons = {"less likely": unlikely, **self.left_out}
        dropped = ", ".join(f"{count:,} {reason}" for reason, count in reasons.items() if count)
        return (
            f"{self.files[0]}, {self.files[1]}: {self.num_kept:,} of {self.pairs:,} pairs, with "
            f"scores of {self.lowest_score:.4f} and more; dropped: {dropped or 'none'}."
        )


def dual_scores(forward: np.ndarray, backward: np.ndarray) -> np.ndarray:
    """Returns scores of pairs by dual conditional cross-entropy (Junczys-Dowmunt, 2018).

    Both models must find a pair likely, and to the same degree: -|H_f - H_b| - (H_f + H_b) / 2.

    Args:
      forward: log-probabilities per token of targets given their sources, [pairs], -H_f.
      backward: log-probabilities per token of sources given their targets, [pairs], -H_b.

    Returns:
      Scores [pairs]; their exponentials are the paper's scores, at most 1.
    """
    return (forward + backward) / 2 - np.abs(forward - backward)


def filter_pairs(
    source: str | Path,
    target: str | Path,
    output: str | Path,
    forward: Translator | None = None,
    backward: Translator | None = None,
    keep: float = 1.0,
) -> FilterResult:
    """Writes the pairs of a text that models find likely, in the order of the text.

    The score of a pair is one model's log-probability per token, or `dual_scores` of two models.
    `<output>.scores` has a line of log-probabilities for each pair: forward, tab, backward. A job
    with another `keep` reuses this file; an interrupted job continues.

    Args:
      source: UTF-8 text, one sentence a line.
      target: translations of the source, line by line.
      output: the pairs go to `<output>.<language>`, by the models' languages.
      forward: translates from the source's language to the target's.
      backward: translates in the opposite direction.
      keep: share of the scored pairs to keep, the best first.

    Raises:
      UserError: there is no model, or a model has no single pair of languages; the languages of
        the models, the names of the files and the text disagree; the files are empty, differ in
        length, or cannot be read or written; or no pair would remain.
    """
    directions = {"forward": forward, "backward": backward}
    models = {name: model for name, model in directions.items() if model}
    _check_arguments(models, keep, source, target)
    languages = _languages(models, source, target)
    outputs = {"scores": Path(f"{output}.scores")}
    outputs |= {side: Path(f"{output}.{code}") for side, code in languages.items()}
    outputs = resolve_outputs([source, target], outputs)
    scores_file = outputs.pop("scores")
    pairs = _count_pairs(source, target, languages)
    _write_scores(models, source, target, scores_file)
    scores, left_out = _read_scores(scores_file, len(models))
    selected = _best_pairs(scores, keep)
    if not selected.any():
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in left_out.items() if count)
        raise UserError(
            f"keep={keep} keeps none of {pairs:,} pairs (without a score: {reasons or 'none'}). "
            f"Give more text, a larger keep, or a larger max_input_length.",
            code="nothing_left",
        )
    _write_selected(
        source, target, outputs, selected, {"keep": keep, "scores": sha256_of(scores_file)}
    )
    files = outputs["source"], outputs["target"]
    return FilterResult(files, pairs, int(selected.sum()), left_out, float(scores[selected].min()))


def _check_arguments(
    models: Mapping[str, Translator], keep: float, source: str | Path, target: str | Path
) -> None:
    """Raises `UserError` for arguments of `filter_pairs` that cannot be used."""
    if not models:
        raise UserError(
            "Please give a forward model, a backward model, or both.", code="missing_argument"
        )
    if not 0 < keep <= 1:
        raise UserError(
            f"keep must be above 0 and at most 1, a share of the pairs; got {keep}.",
            code="bad_value",
        )
    for path in (source, target):
        check_not_stream(path, "The text is read twice")


def _write_selected(
    source: str | Path,
    target: str | Path,
    outputs: Mapping[str, Path],
    selected: np.ndarray,
    provenance: Mapping[str, Any],
) -> None:
    """Writes the pairs for which `selected`, boolean [pairs], is true."""
    targets = read_text(Path(target))

    def select(sources: Sequence[str], number: int, _: object) -> tuple[dict, Counter]:
        span = slice(number, number + len(sources))
        sides = {"source": sources, "target": targets[span]}
        selection = {side: itertools.compress(text, selected[span]) for side, text in sides.items()}
        return selection, Counter()

    run_line_job(source, outputs, provenance, select, _LINES_AT_ONCE)


def _languages(
    models: Mapping[str, Translator], source: str | Path, target: str | Path
) -> dict[str, str]:
    """Returns the models' languages of source and target."""
    pairs = {name: model.problem.languages() for name, model in models.items()}
    for name, model in models.items():
        if not all(pairs[name]):
            raise UserError(
                f"The problem of the {name} model, {model.problem.name or 'none'}, has no "
                f"languages. Expected a model of one pair, such as of parallel_text with "
                f"source_language and target_language.",
                code="unknown_language",
            )
    if "backward" in pairs:
        pairs["backward"] = pairs["backward"][::-1]
    if len(set(pairs.values())) > 1:
        raise UserError(
            f"Expected models of opposite directions, got a forward model from "
            f"{' to '.join(pairs['forward'])} and a backward model from "
            f"{' to '.join(pairs['backward'][::-1])}.",
            code="other_language",
        )
    languages = dict(zip(("source", "target"), next(iter(pairs.values())), strict=True))
    endings = {
        side: Path(path).suffix[1:] for side, path in (("source", source), ("target", target))
    }
    swapped = {"source": languages["target"], "target": languages["source"]}
    if endings == swapped != languages:
        raise UserError(
            f"{source} and {target} are swapped: the models expect a source in "
            f"{languages['source']} and a target in {languages['target']}.",
            code="swapped_languages",
        )
    return languages


def _count_pairs(source: str | Path, target: str | Path, languages: Mapping[str, str]) -> int:
    """Returns the number of pairs; raises `UserError` for empty, unequal or swapped files."""
    sides = Path(source), Path(target)
    num_lines, num_target_lines = map(count_lines, sides)
    check_same_lines({source: num_lines, target: num_target_lines})
    stride = 1 + num_lines // _SAMPLED_LINES
    sample = (
        [
            line.decode("utf-8", "replace")
            for line in itertools.islice(read_lines(side), 0, None, stride)
        ]
        for side in sides
    )
    name = f"the text in {source} and {target}"
    chunk = ExampleChunk(tuple(zip(*sample, strict=True)), first_line=1, corpus=name)
    check_direction([chunk], (languages["source"], languages["target"]))
    return num_lines


def _write_scores(
    models: Mapping[str, Translator], source: str | Path, target: str | Path, output: Path
) -> None:
    """Writes the models' log-probabilities, unless the file already has them."""
    provenance = as_json(
        {
            "source": sha256_of(Path(source)),
            "target": sha256_of(Path(target)),
            **{name: _identity(model) for name, model in models.items()},
        }
    )
    manifest = read_manifest(output)
    # Compare both models' entries: scores by one model cannot replace scores by two.
    names = {*provenance, "forward", "backward"}
    if all(manifest.get(name) == provenance.get(name) for name in names):
        return
    targets = read_text(Path(target))

    def score(
        lines: Sequence[str], number: int, progress: Callable[[int], object]
    ) -> tuple[dict, Counter]:
        scores = _score_lines(models, lines, targets[number : number + len(lines)])
        progress(len(lines))
        return {"scores": scores}, Counter()

    first_model = next(iter(models.values()))
    at_once = first_model.config.lines_at_once
    run_line_job(source, {"scores": output}, provenance, score, at_once, manifest={})


def _identity(model: Translator) -> dict[str, Any]:
    """Returns everything that a model's scores depend on."""
    settings = {name: getattr(model.config, name) for name in ("max_input_length", "weights_dtype")}
    return {"checkpoint": model.checkpoint_identity, "engine": model.engine.name, **settings}


def _score_lines(
    models: Mapping[str, Translator], sources: Sequence[str], targets: Sequence[str]
) -> list[str]:
    """Returns a line for each pair: its scores, or why it has none; see `_read_scores`."""
    sides = {"forward": (sources, targets), "backward": (targets, sources)}
    fits = [model.fits(*sides[name]) for name, model in models.items()]
    lines = []
    for source, target, *pair_fits in zip(sources, targets, *fits, strict=True):
        blank = is_blank(source) or is_blank(target)
        lines.append(_BLANK_PAIR if blank else "" if all(pair_fits) else _LONG_PAIR)
    numbers = [number for number, reason in enumerate(lines) if not reason]
    columns = []
    for name, model in models.items():
        pairs = ([side[number] for number in numbers] for side in sides[name])
        scores = model.score(*pairs)
        columns.append([score.log_prob / len(score.token_log_probs) for score in scores])
    for number, values in zip(numbers, zip(*columns, strict=True), strict=True):
        lines[number] = "\t".join(f"{value:.6f}" for value in values)
    return lines


def _read_scores(path: Path, num_models: int) -> tuple[np.ndarray, dict[str, int]]:
    """Returns the scores [pairs], NaN = missing, and the numbers of missing ones by reason."""
    lines = read_text(path)
    no_scores = [np.nan] * num_models
    rows = [no_scores if line in (_BLANK_PAIR, _LONG_PAIR) else line.split("\t") for line in lines]
    log_probs = np.array(rows, np.float64).reshape(-1, num_models)
    scores = dual_scores(*log_probs.T) if num_models == 2 else log_probs[:, 0]
    return scores, {reason: lines.count(reason) for reason in (_BLANK_PAIR, _LONG_PAIR)}


def _best_pairs(scores: np.ndarray, keep: float) -> np.ndarray:
    """Returns which pairs are among the best, boolean [pairs]; earlier ones win ties."""
    scored = np.flatnonzero(~np.isnan(scores))
    ranked = scored[np.argsort(-scores[scored], kind="stable")]
    best = np.zeros(len(scores), bool)
    best[ranked[: round(keep * len(ranked))]] = True
    return best
