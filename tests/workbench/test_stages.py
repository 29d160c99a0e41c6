"""The stages of the workbench together, beside other stages, and in markup."""

import re

from upper_case import UpperCase, UpperCaseEngine

from t2t_keras import registry
from t2t_keras.data.problem import Problem
from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.lines import LineStage, Prepared, line_stages
from t2t_keras.workbench.markup.translator import translate_markup
from t2t_keras.workbench.placeholders.stage import PlaceholderStage
from t2t_keras.workbench.terms.glossary import Glossary
from t2t_keras.workbench.terms.stage import with_terms


class Dots(LineStage):
    """Keeps a full stop from the model."""

    name = "dots"

    def prepare(self, line):
        dot = Prepared(line.removesuffix("."))
        dot.restore = lambda output: f"{output}."
        return dot


def test_this_library_s_stages_come_first(own_registry):
    registry.register_line_stage(lambda config, problem: Dots(), name="dots")
    actual = line_stages(DecodeConfig(check_placeholders=True), Problem())
    assert [stage.name for stage in actual] == ["placeholders", "dots"]


def test_another_glossary_takes_the_place_of_one():
    one, other = (Glossary.of([("a", target)]) for target in "bc")
    actual = with_terms(with_terms(UpperCase(), one), other)
    assert [stage.glossary for stage in actual.stages] == [other]


def test_what_a_stage_makes_blank_is_restored_in_markup():
    pages = ["<p>Hello <b>you</b> two.</p>", "<p>.</p>"]
    translator = UpperCase().with_stages(Dots())
    texts = [translation.text for translation in translate_markup(translator, pages, "html")]
    # Of which words the marks are is not known.
    assert re.sub("</?b>", "", texts[0]) == "<p>HELLO YOU TWO.</p>"
    assert (texts[0].count("<b>"), texts[0].count("</b>"), texts[1]) == (1, 1, "<p>.</p>")


def test_notes_are_of_the_hypothesis_that_is_taken():
    class Losing(UpperCaseEngine):
        """Loses a placeholder, but for a translation that is begun."""

        def written(self, text):
            return text.upper().replace("%S", "")

    engine = Losing(DecodeConfig())
    translator = UpperCase(engine=engine).with_stages(PlaceholderStage())
    [translation] = translator.translate(["a dog %s"])
    assert translation.notes == {"placeholders": 1}
    [actual] = with_terms(translator, Glossary.of([("dog", "Hund %s")])).translate(["a dog %s"])
    assert (actual.text, actual.notes["terms"][0].kind) == ("A Hund %s", "exact")
    assert "placeholders" not in actual.notes
