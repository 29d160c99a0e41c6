"""Scores systems by sacreBLEU and COMET, and tests the significance of their differences.

The tests are those of `sacrebleu --paired-bs` (Koehn, 2004) and `--paired-ar` (Riezler and Maxwell,
2005); the same seed and number of samples give the same p-values.
"""

import contextlib
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.metrics.base import Metric, Score, Signature
from sacrebleu.significance import PairedTest, Result

from t2t_keras.errors import UserError, translated_errors, unknown_name
from t2t_keras.lab.comparison.systems import TranslatedText
from t2t_keras.metrics import check_tokenization
from t2t_keras.registry import METRICS

DEFAULT_METRICS = ("bleu", "chrf", "ter")
COMET = "comet"
# sacreBLEU's names of the tests, default numbers of samples, and titles.
TESTS = {
    "bootstrap": ("bs", 1_000, "paired bootstrap"),
    "randomization": ("ar", 10_000, "paired approximate randomization"),
}
_SEED_VAR, _DEFAULT_SEED = "SACREBLEU_SEED", "12345"
_LOWER_IS_BETTER = ("ter",)
# Differences with a smaller p-value are marked as significant.
P_LIMIT = 0.05


@dataclasses.dataclass(frozen=True)
class Significance:
    """A test of differences.

    Attributes:
      test: one of TESTS.
      samples: number of resamples or shuffles; 0 = sacreBLEU's default.
      seed: seed of the samples. As an argument, None = SACREBLEU_SEED, by default 12345; as an
        attribute, None = no fixed seed, from SACREBLEU_SEED=none.
    """

    test: str = "bootstrap"
    samples: int = 0
    seed: int | None = None

    def __post_init__(self) -> None:
        if self.test not in TESTS:
            raise UserError(
                f"Expected one of the tests {', '.join(TESTS)}, got {self.test!a}.",
                code="bad_value",
            )
        text = str(self.seed) if self.seed is not None else os.environ.get(_SEED_VAR, _DEFAULT_SEED)
        # sacreBLEU treats 0 as no seed.
        if text.lower() != "none" and (not text.isdecimal() or int(text) == 0):
            raise UserError(
                f"The seed must be a whole number from 1 on, or {_SEED_VAR}=none; got {text!a}.",
                code="bad_value",
            )
        object.__setattr__(self, "seed", None if text.lower() == "none" else int(text))
        object.__setattr__(self, "samples", self.samples or TESTS[self.test][1])

    def __str__(self) -> str:
        seed = "no fixed seed" if self.seed is None else f"seed {self.seed}"
        return f"{TESTS[self.test][2]}, {self.samples:,} samples, {seed}"


@dataclasses.dataclass(frozen=True)
class SystemScore:
    """A system's score.

    Attributes:
      score: score of the whole text.
      mean: mean over the resamples; None = no resamples.
      interval: half the width of the 95 % interval around the mean; None = no resamples.
      difference: score minus the baseline's; None for the baseline.
      p_value: two-sided p-value of the difference; None for the baseline, and without a test.
    """

    score: float
    mean: float | None = None
    interval: float | None = None
    difference: float | None = None
    p_value: float | None = None

    @property
    def is_significant(self) -> bool:
        """Whether the difference from the baseline is significant, p < P_LIMIT.

        A difference of 0 is not, though sacreBLEU gives it the smallest p-value.
        """
        return bool(self.difference) and self.p_value is not None and self.p_value < P_LIMIT


@dataclasses.dataclass(frozen=True)
class MetricScores:
    """The scores of all systems by one metric.

    Attributes:
      name: name of the metric, such as "chrf".
      label: title of the metric, such as "chrF2".
      signature: sacreBLEU's description of the computation; "" for a registered metric.
      higher_is_better: True for quality, False for error, None = unknown.
      scores: the systems' scores, the baseline's first.
    """

    name: str
    label: str
    signature: str
    higher_is_better: bool | None
    scores: Sequence[SystemScore]

    @property
    def digits(self) -> int:
        """Decimals to show: more for COMET, whose scores are around 1."""
        return 2 if max(abs(score.score) for score in self.scores) >= 2 else 4


_MODEL_IN_FOLDER = Path("checkpoints") / "model.ckpt"
_FIND_COMET = "import importlib.util, sys; sys.exit(importlib.util.find_spec('comet') is None)"
_COMET_SCRIPT = Path(__file__).with_name("comet_script.py")


class CometModel(NamedTuple):
    """A COMET model (Rei et al., 2020) on disk, with the Python that runs it.

    Unbabel's package needs NumPy 1 and protobuf 4, which exclude TensorFlow. So it may be installed
    in another environment, whose Python then computes the scores.

    Attributes:
      path: the model's checkpoint, or the folder with `checkpoints/model.ckpt` and `hparams.yaml`.
      python: Python of the environment with unbabel-comet; "" = this one.
    """

    path: str | Path
    python: str | Path = ""

    def check(self) -> tuple[Path, str]:
        """Returns checkpoint and interpreter; raises `UserError` if one of them cannot be used."""
        checkpoint = Path(self.path)
        checkpoint = (
            checkpoint / _MODEL_IN_FOLDER if checkpoint.is_dir() else checkpoint
        ).absolute()
        if not checkpoint.is_file() or not (checkpoint.parents[1] / "hparams.yaml").is_file():
            raise UserError(
                f"There is no COMET model in {self.path}: expected checkpoints/model.ckpt and "
                f"hparams.yaml in it. Models are not downloaded.",
                code="no_model",
            )
        python = str(self.python or sys.executable)
        text = f"{python} cannot be started"
        with translated_errors(OSError, text, code="other_program_failed"):
            missing = subprocess.run([python, "-I", "-c", _FIND_COMET], check=False).returncode
        if missing:
            raise UserError(
                f"COMET needs a package that {python} does not have: pip install unbabel-comet, in "
                f"an environment of its own, and give its Python as --comet_python.",
                code="missing_package",
            )
        return checkpoint, python


def check_metrics(
    names: Sequence[str], tokenize: str, comet: CometModel | None, has_source: bool
) -> None:
    """Raises `UserError` unless these metrics can be computed; called before any work."""
    known = [*_metric_makers("", False), *METRICS]
    for name in names:
        if name not in known:
            raise unknown_name("metric", name, known, "For COMET, give --comet_model.")
    if not names and not comet:
        raise UserError(f"Expected at least one metric of {', '.join(known)}.", code="too_few")
    check_tokenization(tokenize)
    registered = [name for name in names if name in METRICS]
    if not has_source and (registered or comet):
        raise UserError(
            f"Give --source, needed for {', '.join([*registered, *['COMET'] * bool(comet)])}.",
            code="missing_flags",
        )
    if comet:
        comet.check()


def score_systems(
    text: TranslatedText,
    names: Sequence[str] = DEFAULT_METRICS,
    tokenize: str = "13a",
    lowercase: bool = False,
    significance: Significance | None = None,
    comet: CometModel | None = None,
) -> list[MetricScores]:
    """Returns the scores of all systems by each metric, in the order of the names, COMET last.

    Args:
      text: the compared text.
      names: names of metrics: bleu, chrf, chrf++, ter, or registered ones, which have no p-values.
      tokenize: sacreBLEU's tokenisation for BLEU.
      lowercase: whether BLEU and chrF ignore case; TER always does.
      significance: the test of differences.
      comet: a COMET model, whose scores are tested like the others; None = without.

    Raises:
      UserError: see `check_metrics`; or the COMET model cannot be loaded.
    """
    check_metrics(names, tokenize, comet, bool(text.sources))
    makers, names = _metric_makers(tokenize, lowercase), list(dict.fromkeys(names))
    metrics = {name: makers[name]([text.references]) for name in names if name in makers}
    if comet:
        metrics[COMET] = Comet(comet, text)
        names.append(COMET)
    results = _test_systems(text, metrics, significance or Significance()) if metrics else {}
    return [results[name] if name in results else _score_registered(name, text) for name in names]


def _metric_makers(tokenize: str, lowercase: bool) -> dict[str, Callable[[Sequence], Metric]]:
    """Returns constructors of sacreBLEU's metrics; each takes the references."""
    return {
        # sacreBLEU warns of text that looks tokenised; "none" declares that it is.
        "bleu": lambda references: BLEU(
            tokenize=tokenize, lowercase=lowercase, force=tokenize == "none", references=references
        ),
        "chrf": lambda references: CHRF(lowercase=lowercase, references=references),
        "chrf++": lambda references: CHRF(lowercase=lowercase, word_order=2, references=references),
        # TER ignores case, like sacreBLEU's by default.
        "ter": lambda references: TER(references=references),
    }


def _test_systems(
    text: TranslatedText, metrics: Mapping[str, Metric], significance: Significance
) -> dict[str, MetricScores]:
    systems: list[tuple[str, Sequence[str]]] = [
        (system.name, list(system.translations)) for system in text.systems
    ]
    with _seeded(significance.seed):
        test = PairedTest(
            systems,
            metrics,
            references=None,  # The metrics have them.
            test_type=TESTS[significance.test][0],
            n_samples=significance.samples,
        )
        signatures, scores = test()
    results = {}
    for name, label in zip(metrics, test.metrics, strict=True):
        baseline, *other_results = (
            result for result in scores[label] if isinstance(result, Result)
        )
        system_scores = [_system_score(baseline)]
        system_scores += [_system_score(result, baseline) for result in other_results]
        results[name] = MetricScores(
            name, label, signatures[label].format(), name not in _LOWER_IS_BETTER, system_scores
        )
    return results


def _system_score(result: Result, baseline: Result | None = None) -> SystemScore:
    return SystemScore(
        float(result.score),
        None if result.mean is None else float(result.mean),
        None if result.ci is None else float(result.ci),
        float(result.score - baseline.score) if baseline else None,
        result.p_value,
    )


@contextlib.contextmanager
def _seeded(seed: int | None) -> Iterator[None]:
    """Sets sacreBLEU's seed, which it reads only from the environment."""
    earlier_seed = os.environ.get(_SEED_VAR)
    os.environ[_SEED_VAR] = str(seed).lower()
    try:
        yield
    finally:
        del os.environ[_SEED_VAR]
        if earlier_seed is not None:
            os.environ[_SEED_VAR] = earlier_seed


def _score_registered(name: str, text: TranslatedText) -> MetricScores:
    baseline, *others = (
        float(METRICS[name](system.translations, text.references, text.sources))
        for system in text.systems
    )
    scores = [SystemScore(baseline)]
    scores += [SystemScore(value, difference=value - baseline) for value in others]
    return MetricScores(name, name, "", None, scores)


class Comet(Metric):
    """COMET as a metric for sacreBLEU's tests: the mean over the sentences.

    Raises `UserError` if the model cannot be loaded or fails.
    """

    class _SIGNATURE_TYPE(Signature):  # noqa: N801
        def __init__(self, args: dict[str, Any]) -> None:
            super().__init__(args)
            self.info |= {"model": args["model"], "comet": args["comet"]}
            self._abbr |= {"model": "model", "comet": "comet"}

    def __init__(self, model: CometModel, text: TranslatedText):
        super().__init__()
        path, python = model.check()
        systems = [system.translations for system in text.systems]
        output = _compute_comet(path, python, text.sources, text.references, systems)
        self.num_refs, self.model, self.comet = 1, path.parents[1].name, output["version"]
        self._scores = dict(zip(map(tuple, systems), output["scores"], strict=True))

    def _extract_corpus_statistics(
        self, hypotheses: Sequence[str], references: object
    ) -> list[list[float]]:
        return [[score, 1.0] for score in self._scores[tuple(hypotheses)]]

    def _aggregate_and_compute(self, stats: list[list[float]]) -> Score:
        return self._compute_score_from_stats([sum(column) for column in zip(*stats, strict=True)])

    def _compute_score_from_stats(self, stats: list[float]) -> Score:
        total, count = map(float, stats)
        return Score("COMET", total / count)

    # Abstract in sacreBLEU, but needed only for the statistics of single sentences.
    _preprocess_segment = _extract_reference_info = None  # type: ignore[assignment]
    _compute_segment_statistics = None  # type: ignore[assignment]


def _compute_comet(
    model: Path,
    python: str,
    sources: Sequence[str],
    references: Sequence[str],
    systems: Sequence[Sequence[str]],
) -> dict[str, Any]:
    """Returns {"scores": [systems][sentences], "version": the package's}."""
    samples = [
        [
            {"src": source, "mt": line, "ref": reference}
            for source, line, reference in zip(sources, lines, references, strict=True)
        ]
        for lines in systems
    ]
    # The encoder's configuration and vocabulary are looked up by name; allow only the cache.
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    with tempfile.TemporaryDirectory() as folder:
        samples_file, scores_file = Path(folder) / "samples.json", Path(folder) / "scores.json"
        samples_file.write_text(json.dumps(samples), "utf-8")
        process = subprocess.run(
            # -I keeps this package off the interpreter's path.
            [python, "-I", _COMET_SCRIPT, model, samples_file, scores_file],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            check=False,
        )
        if process.returncode:
            message = process.stderr.strip().rpartition("\n")[2] or "no message"
            raise UserError(
                f"COMET failed with {model}: {message} The encoder that the model names must be in "
                f"the cache of Hugging Face, as nothing is downloaded.",
                code="other_program_failed",
            )
        return json.loads(scores_file.read_text("utf-8"))
