"""What is typed, and what is answered, by a translator that repeats."""

import pytest

from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.translation import Hypothesis, Translation
from t2t_keras.decoding.typed import translate_typed


class Repeats:
    """Translates a line to what it must begin with and itself, of at most 10 letters each."""

    def __init__(self, **config):
        self.config = DecodeConfig(**config)

    def translate(self, lines, prefixes):
        [line], [prefix] = lines, prefixes
        text = f"{prefix[:10]}|{line[:10]}"
        hypotheses = (Hypothesis(text, -0.5), Hypothesis("other", -1.25))
        return [
            Translation(
                text,
                -0.5,
                hypotheses,
                cut=len(line[10:]),
                prefix_cut=len(prefix[10:]),
                finished=f"({text})",
            )
        ]


def answers(*lines, **config):
    found = []
    translate_typed(Repeats(**config), lines, found.append)
    return found


def test_what_stands_behind_a_tab_is_the_beginning():
    assert answers("a man", "a man\tEin Herr", "\tEin", "a\tb\tc") == [
        "(|a man)",
        "(Ein Herr|a man)",
        "(Ein|)",
        "(b\tc|a)",
    ]


def test_what_is_cut_is_told_before_the_answer():
    assert answers("a man sleeps\tEin Mann schläft", "a man") == [
        "(The last 2 tokens were too much and are left out.)",
        "(The last 6 tokens of the prefix are left out: an output may not be so long.)",
        "(Ein Mann s|a man slee)",
        "(|a man)",
    ]


@pytest.mark.parametrize("setting", ["return_beams", "write_beam_scores"])
def test_hypotheses_with_their_scores(setting):
    assert answers("a man", "b", **{setting: True}) == [
        "-0.5000\t|a man",
        "-1.2500\tother",
        "-0.5000\t|b",
        "-1.2500\tother",
    ]
