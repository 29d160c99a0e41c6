"""What there is to see of the translation of one sentence."""

import dataclasses
from collections.abc import Sequence

from t2t_keras.decoding.attention_weights import AttentionWeights
from t2t_keras.decoding.translation import Hypothesis
from t2t_keras.decoding.translator import Translator


@dataclasses.dataclass(frozen=True)
class SentenceInsights:
    """A sentence, what the search made of it, and where the model looked.

    Attributes:
      source: the sentence.
      hypotheses: what the search found, best first, or the samples; the first is the translation.
      attention: the weights with which the first one's text is predicted, in the pieces that the
        vocabulary divides it into. A search may have spelled the same text in other pieces.
    """

    source: str
    hypotheses: tuple[Hypothesis, ...]
    attention: AttentionWeights


def sentence_insights(translator: Translator, lines: Sequence[str]) -> list[SentenceInsights]:
    """Translates lines and looks at how.

    Args:
      translator: of one model; its `return_beams` setting says whether all hypotheses are there.
      lines: source text, none of them blank.

    Returns:
      One `SentenceInsights` a line.

    Raises:
      UserError: a sentence or its translation is too long, several models translate together, or
        the model computes something that is not a number.
    """
    translations = translator.translate(lines)
    attentions = translator.attention(lines, [translation.text for translation in translations])
    return [
        SentenceInsights(line, translation.hypotheses, attention)
        for line, translation, attention in zip(lines, translations, attentions, strict=True)
    ]
