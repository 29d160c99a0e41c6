import dataclasses
from collections.abc import Mapping

import numpy as np
import pytest
from refusals import refused

from t2t_keras.settings import (
    as_assignments,
    describe,
    json_value,
    override,
    parse_assignments,
    setting,
)


@dataclasses.dataclass(frozen=True)
class Oven:
    degrees: int = setting(180, "heat in degrees Celsius", minimum=50, maximum=250)
    hours: float = setting(1.5, "time inside", minimum=0.0)
    fan: bool = setting(False, "whether the fan turns")
    timer: int = setting(10, "minutes to the bell", minimum=0, words={"never": 0})
    rack: str = setting("middle", "where the tin stands", choices=("top", "middle", "bottom"))
    dish: str = setting("bread", "what is baked")
    drift: float = setting(0.0, "error of the thermometer in degrees")
    tins: tuple[str, ...] = setting(("large",), "what is used", choices=("large", "small"))
    clock: tuple[int, ...] = setting((), "hours at which it starts", minimum=0, maximum=23)
    flour: Mapping[str, float] = setting(
        {}, "kilograms by kind", choices=("rye", "wheat"), minimum=0.1
    )
    layers: tuple[Mapping[str, float], ...] = setting((), "grams of each layer", minimum=1)
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
        ("a=[1, b c] , b=2", {"a": ["1", "b c"], "b": "2"}),
        ("a=[],b={}", {"a": [], "b": {}}),
        ("a={b: 0.5,c: [x, y]},d=e", {"a": {"b": "0.5", "c": ["x", "y"]}, "d": "e"}),
        ('a="b ,c{1,2}",d=\'e,"f\'', {"a": "b ,c{1,2}", "d": 'e,"f'}),
        ('a=["x{1,2}", "y+"],b=1', {"a": ["x{1,2}", "y+"], "b": "1"}),
        ("a=[no, ~, 1e5, <B>, 2020-01-01]", {"a": ["no", "~", "1e5", "<B>", "2020-01-01"]}),
        # Brackets and quotation marks that begin no value are as they are.
        ("a=x[1,b=it's", {"a": "x[1", "b": "it's"}),
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


@pytest.mark.parametrize(
    ("text", "code"),
    [
        *((text, "not_yaml") for text in ("a=[1,b=2", "a=[1]2", 'a="b', "a=[b: [}", "a=[!x:}]")),
        ("a=" + 2000 * "[", "not_yaml"),
        ("a=[&x 1, *x]", "bad_value"),
        ("a={[1]: 2}", "bad_value"),
        ("a={b:1}", "bad_value"),
        ("a={b: 1, b: 2}", "given_twice"),
    ],
)
def test_parse_assignments_refuses_yaml(text, code):
    with refused(code, "a:"):
        parse_assignments(text)


def test_what_is_written_is_read_back():
    values = {"a": 1, "b": True, "c": 'it"s, [{', "d": [], "e": {"x y": ["1", "", "#"], "<B>": 0.5}}
    text = as_assignments(values)
    expected = {**values, "a": "1", "b": "True", "e": {"x y": ["1", "", "#"], "<B>": "0.5"}}
    assert parse_assignments(text) == expected
    assert as_assignments({"f": ["a-b", "c.d"], "g": "x/y"}) == "f=[a-b, c.d],g=x/y"


def test_lists_and_mappings():
    oven = override(Oven(), "tins=[small, large],clock=[7, 1e1],flour={rye: 1, wheat: 0.5}")
    assert (oven.tins, oven.clock) == (("small", "large"), (7, 10))
    assert oven.flour == {"rye": 1.0, "wheat": 0.5}
    assert override(Oven(), {"tins": ["small"], "clock": (np.int64(7),)}).clock == (7,)
    assert override(Oven(), {"layers": [{"a": 1}, {"b": 2}]}).layers == ({"a": 1.0}, {"b": 2.0})
    # A list of one needs no brackets.
    assert override(Oven(), "tins=small,layers={a: 1}").tins == ("small",)
    assert override(oven, "tins=,clock=[],flour=").flour == {}
    recorded = {name: json_value(value) for name, value in vars(oven).items() if name != "serial"}
    assert recorded["tins"] == ["small", "large"]
    assert override(Oven(), recorded) == oven
    assert "tins=[large]: what is used" in describe(Oven())


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ("tins=[large, smal]", ["'tins'", "'smal'", "'small'"]),
        ("clock=[7, 24]", ["'clock'", 23, 24]),
        ("clock=[7, [8]]", ["'clock'", "an integer"]),
        ({"clock": {"a": 7}}, ["'clock'", "an integer"]),
        ("flour={rye: 0}", ["'flour'", 0.1]),
        ("flour={oats: 1}", ["'flour'", "'oats'", "rye, wheat"]),
        ("flour=[rye]", ["'flour'", "['rye']"]),
        ("flour=rye", ["'flour'", "'rye'"]),
        ({"flour": {1: 1}}, ["'flour'", "{1: 1}"]),
        ("flour={rye: much}", ["'flour'", "'much'"]),
        ("layers=[{a: 0}]", ["'layers'", 1]),
        ("dish=[a]", ["'dish'", "['a']"]),
        ({"tins": ["small", 1]}, ["'tins'", "a string"]),
    ],
)
def test_override_refuses_a_list_or_mapping(changes, names):
    with refused("bad_value", *names):
        override(Oven(), changes)


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
        actual = getattr(override(Oven(fan=not expected), {name: value}), name)
        assert actual == expected
        assert type(actual) is type(expected)


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
        override(Oven(), {name: 200}, noun="knob", new_names={"heat": "degrees"})
