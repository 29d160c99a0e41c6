"""A translator's stages prepare, rank, mend and restore: the seam that plug-ins use."""

import dataclasses

import numpy as np
import pytest
from refusals import refused
from upper_case import UpperCase

from t2t_keras import registry
from t2t_keras.data.problem import Problem
from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.file_job import translate_file, translate_interactively
from t2t_keras.decoding.lines import LineStage, Prepared, line_stages
from t2t_keras.decoding.translator import Translator


class Spelled(Prepared):
    """A line whose signs are words."""

    def __init__(self, line, sign, word):
        super().__init__(line.replace(sign, word))
        self.sign, self.word = sign, word

    def original(self, source):
        return source.replace(self.word, self.sign)

    def hide(self, output):
        return output.replace(self.sign, self.word.upper())

    def restore(self, output):
        return output.replace(self.word.upper(), self.sign)

    def costs(self, source, outputs):
        return [
            abs(output.count(self.word.upper()) - source.count(self.word)) for output in outputs
        ]


class Spelling(LineStage):
    """Replaces a sign by words; mends outputs that end with one of the signs of the beam."""

    def __init__(self, sign, word, ending=""):
        self.name, self._how, self._ending = sign, (sign, word), ending

    def prepare(self, line):
        return Spelled(line, *self._how)

    def mend(self, drafts, context):
        for draft in drafts:
            if self._ending and not draft.outputs[0].endswith(self._ending):
                draft.replace(0, draft.outputs[0] + self._ending)
                draft.note([draft.source])

    def note(self, notes):
        return [source for note in notes for source in note]

    def settings(self):
        return {"how": self._how}

    def counts(self, notes):
        return {f"{self.name} mended": sum(map(len, notes))}

    def report(self, counts):
        yield f"{counts.get(f'{self.name} mended', 0)} mended"

    def remarks(self, note):
        yield f"mended {note}"


def test_stages_are_nested():
    plain = UpperCase()
    translator = plain.with_stages(Spelling("@", " at "), Spelling("+", " plus ", "!"))
    [line] = translator.prepare(["me@home+you"])
    assert line.text == "me at home plus you"
    assert line.original("home plus you") == "home+you"
    [translation] = translator.translate(["me@home+you"])
    assert (translation.text, translation.parts) == ("ME@HOME+YOU!", ("ME AT HOME PLUS YOU!",))
    assert translation.notes == {"+": ["me at home plus you"]}
    assert plain.stages == (), "the other translator is as it was"
    [begun] = translator.translate(["me@home now"], ["ME@YOU"])
    assert begun.text == "ME@YOU NOW!"


def test_the_cheapest_hypothesis_is_taken_and_its_rank_told():
    class Asking(Prepared):
        def costs(self, source, outputs):
            return [not output.endswith("?") for output in outputs]

    class Questions(LineStage):
        name = "questions"

        def prepare(self, line):
            return Asking(line)

    asking = UpperCase().with_stages(Questions())
    [translation] = asking.translate(["a dog"])
    assert [hypothesis.text for hypothesis in translation.hypotheses] == [
        "A DOG?",
        "A DOG",
        "A DOG!",
    ]
    assert (translation.text, translation.rank, translation.score) == ("A DOG?", 2, -1.0)

    class Again(Questions):
        def mend(self, drafts, context):
            for draft, outputs in zip(drafts, context.search(drafts, ["A"]), strict=True):
                draft.take(outputs)

    # So it is among what a stage itself searches, the first one too.
    assert UpperCase().with_stages(Again()).translate(["a dog"]) == [translation]


def test_a_stage_reports_on_files_and_remarks_while_one_types(tmp_path, capsys):
    translator = UpperCase(DecodeConfig()).with_stages(Spelling("@", " at ", "."))
    (tmp_path / "in").write_text("a@b\nc.\n")
    translate_file(translator, tmp_path / "in", tmp_path / "out", {})
    assert (tmp_path / "out").read_text() == "A@B.\nC.\n"
    assert capsys.readouterr().out.splitlines()[-1] == "1 mended"
    shown = []
    translate_interactively(translator, ["a@b"], shown.append)
    assert shown == ["A@B.", "mended ['a at b']"]


@pytest.mark.parametrize(("alpha", "beta"), [(0.0, 0.0), (0.6, 0.4)])
def test_a_given_output_has_the_score_of_a_search(model, tokenizer, alpha, beta):
    config = DecodeConfig(
        alpha=alpha, coverage_penalty=beta, beam_size=3, extra_length=4, return_beams=True
    )
    engine = Translator(model, tokenizer, config).engine
    sources = tokenizer.encode(["the small dog sees a man", "red"])
    actual = engine.outputs(sources, [np.zeros(0, np.int32)] * 2, [0, 1])
    pairs = [
        (source, output)
        for source, outputs in zip(sources, actual, strict=True)
        for output in outputs
    ]
    targets = [np.trim_zeros(np.asarray(output.ids), "b") for _, output in pairs]
    scores = dict(engine.scores([source for source, _ in pairs], targets))
    expected = [output.score for _, output in pairs]
    assert [scores[i] for i in range(len(pairs))] == pytest.approx(expected, abs=1e-4)


def test_stages_have_names_of_their_own():
    plain = UpperCase()
    for names in (("a", "a"), ("", "a")):
        with refused("given_twice", *names):
            plain.with_stages(*(Spelling(name, " x ") for name in names))


def test_registered_stages_are_asked_for_what_they_do(own_registry):
    registry.register_line_stage(
        lambda config, problem: config.samples and Spelling("@", " at "), name="spelling"
    )
    sampling = line_stages(DecodeConfig(samples=1), Problem())
    assert [stage.name for stage in sampling] == ["@"]
    assert line_stages(DecodeConfig(), Problem()) == []


def test_what_a_stage_makes_blank_is_restored():
    class Dots(LineStage):
        name = "dots"

        def prepare(self, line):
            dot = Prepared(line.removesuffix("."))
            dot.restore = lambda output: f"{output}."
            return dot

    translator = UpperCase().with_stages(Dots())
    assert [translation.text for translation in translator.translate([".", "a."])] == [".", "A."]


def test_a_translation_of_another_translator_is_not_aligned():
    [translation] = UpperCase().translate(["a dog"])
    other = dataclasses.replace(translation, parts=("A", "DOG"))
    with refused("other_translation", "a dog", 1, 2):
        UpperCase().align(["a dog"], [other])
