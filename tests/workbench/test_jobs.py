"""Jobs of lines with the stages of the workbench."""

from echo import echo, upper_case
from upper_case import UpperCase

from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.file_job import attention_records, translate_interactively
from t2t_keras.decoding.translation import Translation
from t2t_keras.workbench.terms.glossary import Glossary
from t2t_keras.workbench.terms.stage import TermStage
from t2t_keras.workbench.terms.uses import find_uses


def test_attention_is_for_a_translation_as_the_model_has_it():
    translator, seen = echo(upper_case), []
    decode = translator.tokenizer.decode
    translator.attention_of_ids = lambda _, targets: seen.extend(decode(targets)) or []
    assert not list(attention_records(translator, ["a %s"], [Translation("%s b", 0.0)]))
    # A symbol stands for the placeholder.
    assert [(len(text), text[1:]) for text in seen] == [(3, " b")]


class Untranslated(TermStage):
    """Says that no term is in the output."""

    def mend(self, drafts, context):
        for draft in drafts:
            draft.note(tuple(find_uses(draft.source, self.glossary.matches(draft.source), "")))


def test_missing_terms_are_named_while_one_types():
    terms = Untranslated(Glossary.of([("a", "ein"), ("the", "d\x07")]))
    translator, shown = UpperCase(DecodeConfig()).with_stages(terms), []
    translate_interactively(translator, ["a cat", "the cat"], shown.append)
    assert shown[1::2] == ["(Missing: a -> ein)", "(Missing: the -> d\\x07)"]
