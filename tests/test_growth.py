"""The work of text functions and of the server's routes grows as the text does, and no faster."""

import runpy
import sys
from pathlib import Path

import pytest

_GROWTH = runpy.run_path(Path(__file__).parents[1] / "benchmarks" / "text_growth.py")
_FUNCTIONS = _GROWTH["functions"]()
_MOTIFS = ("a b c. ", "<b>%s</b> ")


_SLOW = tuple(name for name, _ in _GROWTH["KNOWN"])
_ROUTES = ("route html", "route address", "route terms")
_QUICK = [
    name
    for name in _FUNCTIONS
    if name not in _SLOW and (not name.startswith("route") or name in _ROUTES)
]


@pytest.mark.skipif(sys.gettrace() is not None, reason="a debugger counts as well")
@pytest.mark.parametrize("name", _QUICK)
def test_work_grows_as_the_text_does(name):
    """`benchmarks/growth.py --only=text` does it with more motifs and up to 100,000 characters."""
    for motif in _MOTIFS:
        growth = _GROWTH["growth_of"](name, _FUNCTIONS[name], motif, 800, "calls")
        assert _GROWTH["is_known"](growth), growth


def test_what_grows_faster_is_seen():
    def quadratic(text):
        return [text.count(character) for character in text for _ in text]

    assert _GROWTH["growth_of"]("", quadratic, "a", 400, "calls").exponent > 1.9
