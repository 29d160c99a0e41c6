"""BLEU and chrF by sacrebleu, each with the signature that makes it comparable."""

import dataclasses
from collections.abc import Mapping, Sequence

from sacrebleu.metrics import BLEU, CHRF

from t2t_keras.errors import UserError, nearest
from t2t_keras.metrics.conventions import ConventionScore, convention_bleu
from t2t_keras.registry import METRICS

# Those that need neither a further package nor a download.
TOKENIZATIONS = ("13a", "char", "intl", "none", "zh")


@dataclasses.dataclass(frozen=True)
class TranslationScore:
    """How well hypotheses match references; all scores are 0 .. 100, `str()` gives the report."""

    bleu: float  # Of the corpus.
    bleu_signature: str  # What it was computed with, in sacrebleu's words.
    chrf: float  # Of the corpus, chrF2.
    chrf_signature: str  # What it was computed with, in sacrebleu's words.
    report: str  # A line each, with signature, n-gram precisions and brevity penalty.
    conventions: Mapping[str, ConventionScore]  # By name, those requested; also in the report.
    # The value of each registered metric that was requested, by name; also in the report.
    metrics: Mapping[str, float] = dataclasses.field(default_factory=dict)

    def __str__(self) -> str:
        return self.report

    @property
    def main(self) -> tuple[str, float]:
        """Name and value of the score to follow while training."""
        return "bleu", self.bleu


def check_tokenization(name: str) -> None:
    """Raises `UserError` unless BLEU can be computed with this tokenisation."""
    if name not in TOKENIZATIONS:
        raise UserError(
            f"There is no tokenisation {name!a}.{nearest(name, TOKENIZATIONS)} There are: "
            f"{', '.join(TOKENIZATIONS)}.",
            code="unknown_name",
        )


def bleu(
    hypotheses: Sequence[str],
    references: Sequence[str],
    tokenize: str = "13a",
    lowercase: bool = False,
    conventions: Sequence[str] = (),
    language: str = "",
    more_references: Sequence[Sequence[str]] = (),
) -> TranslationScore:
    """Scores translations against one reference each, or several.

    Args:
      hypotheses: the translations, plain text.
      references: line N is the reference of hypothesis N.
      tokenize: sacrebleu's tokenisation for BLEU: "13a" (default), "intl", "zh", "char", or "none"
        for text that is already tokenised. chrF needs none.
      lowercase: whether to ignore case, in all scores.
      conventions: others to score under as well: "tokenised", "compound_split".
      language: code of the translations' language, which these need.
      more_references: further references, each as `references`; conventions take none.

    Raises:
      UserError: no lines, a different number of them, an unknown tokenisation or convention.
    """
    check_tokenization(tokenize)
    for lines in (references, *more_references):
        if len(hypotheses) != len(lines):
            raise UserError(
                f"Expected as many translations as references, line by line; got "
                f"{len(hypotheses)} translations and {len(lines)} references.",
                code="unequal_counts",
            )
    if conventions and more_references:
        raise UserError(
            f"The conventions {', '.join(conventions)} take one reference, got "
            f"{1 + len(more_references)}. Leave the convention out, or give one reference.",
            code="bad_arguments",
        )
    if not hypotheses:
        raise UserError("There are no lines to score.", code="no_text")
    scores, signatures, lines = [], [], []
    # Text that looks tokenised makes sacreBLEU warn; "none" says that it is.
    bleu_metric = BLEU(tokenize=tokenize, lowercase=lowercase, force=tokenize == "none")
    for metric in (bleu_metric, CHRF(lowercase=lowercase)):
        score = metric.corpus_score(list(hypotheses), [*map(list, (references, *more_references))])
        # sacrebleu completes a signature while it scores.
        signatures.append(str(metric.get_signature()))
        scores.append(score.score)
        lines.append(score.format(width=2, signature=signatures[-1]))
    others = {}
    for name in conventions:
        score = others[name] = convention_bleu(hypotheses, references, name, language, lowercase)
        lines.append(f"BLEU ({name})|{score.signature} = {score.bleu:.2f}")
    report = "\n".join(lines)
    return TranslationScore(scores[0], signatures[0], scores[1], signatures[1], report, others)


def with_metrics(
    score: TranslationScore,
    names: Sequence[str],
    hypotheses: Sequence[str],
    references: Sequence[str],
    sources: Sequence[str],
) -> TranslationScore:
    """Returns a score with the values of registered metrics added, by their names.

    Raises:
      UserError: there is no such metric.
    """
    values = {name: float(METRICS[name](hypotheses, references, sources)) for name in names}
    report = "\n".join([score.report, *(f"{name} = {value:.4g}" for name, value in values.items())])
    return dataclasses.replace(score, metrics=values, report=report)
