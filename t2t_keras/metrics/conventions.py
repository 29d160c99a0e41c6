"""The conventions in which papers report BLEU for EN-DE, each with a name of its own.

| convention | what BLEU is computed on |
|---|---|
| `sacrebleu` | plain text, tokenised by sacreBLEU: comparable everywhere |
| `tokenised` | text tokenised by Moses's tokeniser, as by multi-bleu.perl |
| `compound_split` | the same by tensor2tensor's get_ende_bleu.sh, as the papers of its line |

That script replaces some Unicode punctuation of the translations by ASCII, as Moses's
replace-unicode-punctuation.perl does, and splits words at their hyphens, which makes more n-grams
match. Its reference, newstest2014.tok.de, has ASCII double quotes for the German ones, which
no tool of Moses makes of them (https://github.com/tensorflow/tensor2tensor/issues/317). The low
quote of a translation stays, so a phrase in German quotes matches the reference at its end only.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from sacrebleu.metrics import BLEU

from t2t_keras.errors import UserError, nearest

CONVENTIONS = ("tokenised", "compound_split")

_DOUBLE_QUOTES = str.maketrans(dict.fromkeys("„“”‟", '"'))
_HYPHEN_IN_WORD = re.compile(r"(\S)-(\S)")


class ConventionScore(NamedTuple):
    """BLEU under one convention."""

    bleu: float  # Of the corpus, 0 .. 100.
    signature: str  # What it was computed with, in sacrebleu's words.


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
      convention: one of the two.
      language: code of the translations' language, whose abbreviations the tokeniser knows.
      lowercase: whether to ignore case.

    Raises:
      UserError: another convention, or a language that sacremoses does not know.
    """
    if convention not in CONVENTIONS:
        raise UserError(
            f"There is no convention '{convention}'.{nearest(convention, CONVENTIONS)} There are: "
            f"{', '.join(CONVENTIONS)}.",
            code="unknown_name",
        )
    # Its tables of characters take a third of a second, which few commands need.
    import sacremoses
    from sacremoses.corpus import NonbreakingPrefixes

    languages = NonbreakingPrefixes().available_langs
    if language not in languages:  # as which sacremoses would take English
        raise UserError(
            f"The convention {convention} tokenises by language: expected that of the "
            f"translations, as de, got {language!a}.{nearest(language, languages)}",
            code="bad_value",
        )
    tokenizer = sacremoses.MosesTokenizer(lang=language)
    tokenisation = f"moses-{language}-sacremoses-{sacremoses.__version__}"
    finish = str
    if convention == "compound_split":
        normalizer = sacremoses.MosesPunctNormalizer()
        hypotheses = map(normalizer.replace_unicode_punct, hypotheses)
        references = (line.translate(_DOUBLE_QUOTES) for line in references)
        finish = split_compounds
        tokenisation += "-unicode-punct-replaced-ref-quotes-ascii-compounds-split"
    hypotheses, references = (
        [finish(tokenizer.tokenize(line, return_str=True)) for line in side]
        for side in (hypotheses, references)
    )
    # As multi-bleu.perl: no smoothing. `force` is sacreBLEU's consent to tokenised text.
    metric = BLEU(tokenize="none", smooth_method="none", lowercase=lowercase, force=True)
    score = metric.corpus_score(hypotheses, [references]).score
    signature = str(metric.get_signature()).replace("tok:none", f"tok:{tokenisation}")
    return ConventionScore(score, signature)


def split_compounds(line: str) -> str:
    """Returns tokenised text with words split at their hyphens, as get_ende_bleu.sh does."""
    return _HYPHEN_IN_WORD.sub(r"\1 ##AT##-##AT## \2", line)
