import dataclasses

import numpy as np
import pytest
from refusals import refused

from t2t_keras.settings import override, parse_assignments, setting


@dataclasses.dataclass(frozen=True)
class Oven:
    degrees: int = setting(180, "heat in degrees Celsius", minimum=50, maximum=250)
    hours: float = setting(1.5, "time inside", minimum=0.0)
    fan: bool = setting(False, "whether the fan turns")
    timer: int = setting(10, "minutes to the bell", minimum=0, words={"never": 0})
    rack: str = setting("middle", "where the tin stands", choices=("top", "middle", "bottom"))
    dish: str = setting("bread", "what is baked")
    drift: float = setting(0.0, "error of the thermometer in degrees")
    serial: int = 7


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("a=1", {"a": "1"}),
        (" a = 1 , b=2 ", {"a": "1", "b": "2"}),
        ("a=1,,b=2,", {"a": "1", "b": "2"}),
        ("a=", {"a": ""}),
        ("a=b=c", {"a": "b=c"}),
    ],
)
def test_parse_assignments(text, expected):
    assert parse_assignments(text) == expected


@pytest.mark.parametrize(
    ("text", "part", "code"),
    [
        *(("a", "'a'", "bad_value"), ("a=1,b", "'b'", "bad_value"), ("=1", "'=1'", "bad_value")),
        *(("a=1, =2", "'=2'", "bad_value"), ("a=1,b=2,a=3", "'a'", "given_twice")),
    ],
)
def test_parse_assignments_refuses(text, part, code):
    with refused(code, part, f"'{text}'"):
        parse_assignments(text)


def test_override_takes_text_or_a_mapping():
    assert override(Oven(), "degrees=220,fan=true") == Oven(degrees=220, fan=True)
    assert override(Oven(), {"degrees": 220, "dish": "a,b=c"}) == Oven(degrees=220, dish="a,b=c")
    # Fields that are not changed are checked too.
    with refused("bad_value", "'degrees'", 50, 0):
        override(Oven(degrees=0), "fan=true")


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("degrees", ["2e2", "200", "200.0", "2_00", "+200", " 200 ", 200], 200),
        ("hours", ["2", "2.0", "2e0", 2, 2.0], 2.0),
        ("fan", ["true", "True", "1", "yes", True], True),
        ("fan", ["false", "FALSE", "0", "no", False], False),
        ("timer", ["never", " Never ", "0", 0], 0),
        ("rack", ["top"], "top"),
        ("degrees", ["50"], 50),
        ("timer", [str(2**53 + 1)], 2**53 + 1),
        ("degrees", ["250", np.int64(250), np.uint8(250)], 250),
        ("hours", [np.float32(1.5), np.float64(1.5), "1.5"], 1.5),
        ("hours", [np.int32(1), 1, "1"], 1.0),
    ],
)
def test_override_reads(name, values, expected):
    for value in values:
        found = getattr(override(Oven(fan=not expected), {name: value}), name)
        assert found == expected
        assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("name", "allowed", "values"),
    [
        ("degrees", [], ["", "hot", "200.5", "1e-1", "nan", "inf", "1e999", "true"]),
        ("degrees", [], ["0x10", "never", True, 200.5, None, [200]]),
        ("timer", [], ["always"]),
        ("hours", [], ["", "long", "1,5", True, None]),
        ("hours", [], ["nan", "-inf", float("nan"), float("inf")]),
        ("drift", [], ["nan", float("inf")]),
        ("fan", ["true", "false"], ["", "maybe", "2", 1, None]),
        ("dish", [], [1, None]),
        ("degrees", [50], [49]),
        ("degrees", [250], [251]),
        ("hours", [0.0], [-0.1]),
        ("rack", ["top, middle, bottom", "'bottom'"], ["botom"]),
    ],
)
def test_override_refuses_a_value(name, allowed, values):
    for value in values:
        with refused("bad_value", f"'{name}'", repr(value), *allowed):
            override(Oven(), {name: value})


@pytest.mark.parametrize(
    ("name", "hints"),
    [("degree", ["'degrees'", "degrees, dish"]), ("serial", []), ("heat", ["'degrees'"])],
)
def test_override_refuses_an_unknown_name(name, hints):
    with refused("unknown_name", f"knob '{name}'", *hints):
        override(Oven(), {name: 200}, what="knob", renamed={"heat": "degrees"})
