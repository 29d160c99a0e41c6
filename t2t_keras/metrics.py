"""BLEU and chrF by sacrebleu, in the conventions that papers report.

| convention | what BLEU is computed on |
|---|---|
| `sacrebleu` | plain text, tokenised by sacreBLEU: comparable everywhere |
| `tokenised` | text tokenised by Moses's tokeniser, as by multi-bleu.perl |
| `compound_split` | `tokenised`, then split at hyphens, as by tensor2tensor's get_ende_bleu.sh |

The script of `compound_split` replaces some Unicode punctuation of the translations by ASCII, as
Moses's replace-unicode-punctuation.perl does, and splits words at their hyphens, so that more
n-grams match. Its reference, newstest2014.tok.de, has ASCII double quotes in place of German ones,
which no tool of Moses produces (https://github.com/tensorflow/tensor2tensor/issues/317). The low
quote of a translation stays: a phrase in German quotes matches the reference only at its end.
"""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sacrebleu.metrics import BLEU, CHRF

from t2t_keras.errors import UserError, suggest, unknown_name
from t2t_keras.registry import METRICS

# sacreBLEU's tokenisations, without those that need another package or a download.
TOKENIZATIONS = ("13a", "char", "intl", "none", "zh")
CONVENTIONS = ("tokenised", "compound_split")

_DOUBLE_QUOTES = str.maketrans(dict.fromkeys("„“”‟", '"'))
_HYPHEN_IN_WORD = re.compile(r"(\S)-(\S)")


class ConventionScore(NamedTuple):
    """BLEU under one convention."""

    bleu: float  # BLEU of the corpus, 0 .. 100.
    signature: str  # sacreBLEU's description of the computation.


@dataclasses.dataclass(frozen=True)
class TranslationScore:
    """How well hypotheses match references.

    Attributes:
      bleu: BLEU of the corpus, 0 .. 100.
      bleu_signature: sacreBLEU's description of the computation.
      chrf: chrF2 of the corpus, 0 .. 100.
      chrf_signature: sacreBLEU's description of chrF's computation.
      report: a line for each score, with signature, n-gram precisions and brevity penalty; also
        returned by `str()`.
      conventions: BLEU under the requested conventions, by name; also in the report.
      metrics: values of the requested registered metrics, by name; also in the report.
    """

    bleu: float
    bleu_signature: str
    chrf: float
    chrf_signature: str
    report: str
    conventions: Mapping[str, ConventionScore]
    metrics: Mapping[str, float] = dataclasses.field(default_factory=dict)

    def __str__(self) -> str:
        return self.report

    @property
    def main(self) -> tuple[str, float]:
        """Name and value of the score to follow while training."""
        return "bleu", self.bleu


def bleu(
    hypotheses: Sequence[str],
    references: Sequence[str],
    tokenize: str = "13a",
    lowercase: bool = False,
    conventions: Sequence[str] = (),
    language: str = "",
    more_references: Sequence[Sequence[str]] = (),
) -> TranslationScore:
    """Scores translations against one or more references.

    Args:
      hypotheses: the translations, plain text.
      references: line N is the reference of hypothesis N.
      tokenize: sacrebleu's tokenisation for BLEU: "13a" (default), "intl", "zh", "char", or "none"
        for text that is already tokenised. chrF uses none.
      lowercase: whether to ignore case, in all scores.
      conventions: further conventions to score under: "tokenised", "compound_split".
      language: code of the translations' language; needed by conventions.
      more_references: further lists of references; not allowed with conventions.

    Raises:
      UserError: no lines, unequal numbers of lines, an unknown tokenisation or convention.
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
    scores, signatures, report_lines = [], [], []
    # sacreBLEU warns of text that looks tokenised; "none" declares that it is.
    bleu_metric = BLEU(tokenize=tokenize, lowercase=lowercase, force=tokenize == "none")
    for metric in (bleu_metric, CHRF(lowercase=lowercase)):
        score = metric.corpus_score(list(hypotheses), [*map(list, (references, *more_references))])
        # sacrebleu completes a signature while it scores.
        signatures.append(str(metric.get_signature()))
        scores.append(score.score)
        report_lines.append(score.format(width=2, signature=signatures[-1]))
    convention_scores = {}
    for name in conventions:
        score = convention_scores[name] = convention_bleu(
            hypotheses, references, name, language, lowercase
        )
        report_lines.append(f"BLEU ({name})|{score.signature} = {score.bleu:.2f}")
    report = "\n".join(report_lines)
    return TranslationScore(
        scores[0], signatures[0], scores[1], signatures[1], report, convention_scores
    )


def convention_bleu(
    hypotheses: Sequence[str],
    references: Sequence[str],
    convention: str,
    language: str,
    lowercase: bool = False,
) -> ConventionScore:
    """Scores translations under the convention `tokenised` or `compound_split`.

    Args:
      hypotheses: the translations, plain text.
      references: line N is the reference of hypothesis N.
      convention: "tokenised" or "compound_split".
      language: code of the translations' language, for the tokeniser's list of abbreviations.
      lowercase: whether to ignore case.

    Raises:
      UserError: an unknown convention, or a language that sacremoses does not know.
    """
    if convention not in CONVENTIONS:
        raise unknown_name("convention", convention, CONVENTIONS)
    # Imported here: its tables of characters take a third of a second to load.
    import sacremoses
    from sacremoses.corpus import NonbreakingPrefixes

    languages = NonbreakingPrefixes().available_langs
    if language not in languages:  # sacremoses would tokenise it as English.
        raise UserError(
            f"The convention {convention} tokenises by language: expected the language of "
            f"the translations, such as de, got {language!a}.{suggest(language, languages)}",
            code="bad_value",
        )
    tokenizer = sacremoses.MosesTokenizer(lang=language)
    tokenisation = f"moses-{language}-sacremoses-{sacremoses.__version__}"
    if convention == "compound_split":
        normalizer = sacremoses.MosesPunctNormalizer()
        hypotheses = list(map(normalizer.replace_unicode_punct, hypotheses))
        references = [line.translate(_DOUBLE_QUOTES) for line in references]
        tokenisation += "-unicode-punct-replaced-ref-quotes-ascii-compounds-split"

    def tokenise(line: str) -> str:
        text = tokenizer.tokenize(line, return_str=True)
        return split_compounds(text) if convention == "compound_split" else text

    hypotheses, references = list(map(tokenise, hypotheses)), list(map(tokenise, references))
    # No smoothing, as in multi-bleu.perl. With `force`, sacreBLEU accepts tokenised text.
    metric = BLEU(tokenize="none", smooth_method="none", lowercase=lowercase, force=True)
    score = metric.corpus_score(hypotheses, [references]).score
    signature = str(metric.get_signature()).replace("tok:none", f"tok:{tokenisation}")
    return ConventionScore(score, signature)


def split_compounds(line: str) -> str:
    """Returns tokenised text with words split at their hyphens, as get_ende_bleu.sh does."""
    return _HYPHEN_IN_WORD.sub(r"\1 ##AT##-##AT## \2", line)


def check_tokenization(name: str) -> None:
    """Raises `UserError` unless `name` is one of `TOKENIZATIONS`."""
    if name not in TOKENIZATIONS:
        raise unknown_name("tokenisation", name, TOKENIZATIONS)


def add_metrics(
    score: TranslationScore,
    names: Sequence[str],
    hypotheses: Sequence[str],
    references: Sequence[str],
    sources: Sequence[str],
) -> TranslationScore:
    """Returns `score` with the values of the registered metrics called `names` added.

    Raises:
      UserError: there is no such metric.
    """
    values = {name: float(METRICS[name](hypotheses, references, sources)) for name in names}
    report = "\n".join([score.report, *(f"{name} = {value:.4g}" for name, value in values.items())])
    return dataclasses.replace(score, metrics=values, report=report)
