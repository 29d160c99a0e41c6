"""What a user types, and the answers of a translator that repeats it."""

import pytest

from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.jobs.interactive import translate_interactively
from t2t_keras.decoding.translation import Hypothesis, Translation


class Repeats:
    """Translates a line to its prefix and itself, of at most 10 letters each."""

    def __init__(self, **config):
        self.config = DecodeConfig(**config)

    def translate(self, lines, prefixes):
        [line], [prefix] = lines, prefixes
        text = f"{prefix[:10]}|{line[:10]}"
        hypotheses = (Hypothesis(text, -0.5), Hypothesis("other", -1.25))
        cuts = len(line[10:]), len(prefix[10:])
        return [Translation(text, -0.5, hypotheses, (), *cuts, postprocessed=f"({text})")]


def answers(*lines, **config):
    found = []
    translate_interactively(Repeats(**config), lines, found.append)
    return found


def test_text_behind_a_tab_is_a_prefix_and_cuts_are_shown():
    assert answers("a man", "a\tb\tc") == ["(|a man)", "(b\tc|a)"]
    first, second, answer = answers("a man sleeps\tEin Mann schläft")
    assert "2 tokens" in first
    assert "6 tokens" in second
    assert answer == "(Ein Mann s|a man slee)"


@pytest.mark.parametrize("setting", ["return_beams", "write_beam_scores"])
def test_hypotheses_with_their_scores(setting):
    assert answers("a", "b", **{setting: True}) == [
        *("-0.5000\t|a", "-1.2500\tother"),
        *("-0.5000\t|b", "-1.2500\tother"),
    ]


def test_nothing_controls_the_terminal():
    assert answers("\x1b]0;a\x07") == ["(|\\x1b]0;a\\x07)"]
    assert answers("\x1b[2J", return_beams=True)[0] == "-0.5000\t|\\x1b[2J"


def test_ctrl_c_ends_it():
    def lines():
        yield "a"
        raise KeyboardInterrupt

    found = []
    translate_interactively(Repeats(), lines(), found.append)
    assert found == ["(|a)"]
