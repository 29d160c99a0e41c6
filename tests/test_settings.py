import dataclasses

import pytest

from t2t_keras.errors import UserError, nearest
from t2t_keras.settings import describe, override, parse_assignments, setting


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


class TestParseAssignments:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("", {}),
            ("a=1", {"a": "1"}),
            ("a=1,b=2", {"a": "1", "b": "2"}),
            (" a = 1 , b=2 ", {"a": "1", "b": "2"}),
            ("a=1,,b=2,", {"a": "1", "b": "2"}),
            ("a=", {"a": ""}),
            ("a=b=c", {"a": "b=c"}),
        ],
    )
    def test_splits(self, text, expected):
        assert parse_assignments(text) == expected

    @pytest.mark.parametrize("text", ["a", "a=1,b", "=1", "a=1, =2"])
    def test_refuses_what_is_no_assignment(self, text):
        with pytest.raises(UserError, match="is not of the form name=value"):
            parse_assignments(text)

    def test_refuses_a_name_given_twice(self):
        with pytest.raises(UserError, match="'a' is given twice, in 'a=1,b=2,a=1'"):
            parse_assignments("a=1,b=2,a=1")


class TestOverride:
    def test_changes_a_copy(self):
        oven = Oven()
        changed = override(oven, "degrees=220,fan=true")
        assert changed == Oven(degrees=220, fan=True)
        assert oven == Oven()

    def test_takes_a_mapping(self):
        assert override(Oven(), {"degrees": 220, "dish": "a,b=c"}) == Oven(
            degrees=220, dish="a,b=c"
        )

    def test_converts_strings_of_a_mapping(self):
        assert override(Oven(), {"degrees": "220"}).degrees == 220

    @pytest.mark.parametrize("text", ["2e2", "200", "200.0", "2_00", "+200", " 200 "])
    def test_reads_a_whole_number(self, text):
        degrees = override(Oven(), f"degrees={text}").degrees
        assert degrees == 200
        assert type(degrees) is int

    @pytest.mark.parametrize(
        "text", ["", "hot", "200.5", "1e-1", "nan", "inf", "-inf", "1e999", "true", "0x10"]
    )
    def test_refuses_what_is_no_whole_number(self, text):
        with pytest.raises(
            UserError, match=f"^The setting 'degrees' takes a whole number; '{text}' came.$"
        ):
            override(Oven(), f"degrees={text}")

    @pytest.mark.parametrize("value", [True, 200.5, None, [200]])
    def test_refuses_a_value_of_another_type(self, value):
        with pytest.raises(UserError, match="'degrees' takes a whole number"):
            override(Oven(), {"degrees": value})

    @pytest.mark.parametrize("value", ["2", "2.0", "2e0", 2, 2.0])
    def test_reads_a_number(self, value):
        hours = override(Oven(), {"hours": value}).hours
        assert hours == 2.0
        assert type(hours) is float

    @pytest.mark.parametrize("value", ["", "long", "1,5", True, None])
    def test_refuses_what_is_no_number(self, value):
        with pytest.raises(UserError, match="'hours' takes a number"):
            override(Oven(), {"hours": value})

    @pytest.mark.parametrize("name", ["hours", "drift"])
    @pytest.mark.parametrize("value", ["nan", "inf", "-inf", float("nan"), float("inf")])
    def test_refuses_numbers_that_are_not_finite(self, name, value):
        with pytest.raises(UserError, match=f"'{name}' takes a number; '{value}' came"):
            override(Oven(), {name: value})

    @pytest.mark.parametrize(
        ("value", "expected"),
        [
            ("true", True),
            ("True", True),
            ("1", True),
            ("yes", True),
            (True, True),
            ("false", False),
            ("FALSE", False),
            ("0", False),
            ("no", False),
            (False, False),
        ],
    )
    def test_reads_a_boolean(self, value, expected):
        assert override(Oven(fan=not expected), {"fan": value}).fan is expected

    @pytest.mark.parametrize("value", ["", "maybe", "2", 1, None])
    def test_refuses_what_is_no_boolean(self, value):
        with pytest.raises(UserError, match="'fan' takes true or false"):
            override(Oven(), {"fan": value})

    @pytest.mark.parametrize("degrees", [50, 250])
    def test_bounds_are_inclusive(self, degrees):
        assert override(Oven(), {"degrees": degrees}).degrees == degrees

    def test_refuses_what_is_out_of_range(self):
        with pytest.raises(UserError, match="'degrees' is at least 50; 49 came"):
            override(Oven(), "degrees=49")
        with pytest.raises(UserError, match="'degrees' is at most 250; 251 came"):
            override(Oven(), "degrees=251")
        with pytest.raises(UserError, match=r"'hours' is at least 0\.0; -0\.1 came"):
            override(Oven(), "hours=-0.1")

    def test_checks_fields_that_are_not_changed(self):
        with pytest.raises(UserError, match="'degrees' is at least 50; 0 came"):
            override(Oven(degrees=0), "fan=true")
        with pytest.raises(UserError, match=r"'hours' is at least 0\.0; nan came"):
            override(Oven(hours=float("nan")), "fan=true")

    @pytest.mark.parametrize("text", ["never", " Never ", "0"])
    def test_a_word_stands_for_a_value(self, text):
        assert override(Oven(), {"timer": text}).timer == 0
        with pytest.raises(UserError, match="'timer' takes a whole number; 'always' came"):
            override(Oven(), "timer=always")
        with pytest.raises(UserError, match="'degrees' takes a whole number; 'never' came"):
            override(Oven(), "degrees=never")

    def test_a_choice_is_one_of_few(self):
        assert override(Oven(), "rack=top").rack == "top"
        with pytest.raises(
            UserError, match=r"'rack' is one of top, middle, bottom; 'botom' came\..*'bottom'"
        ):
            override(Oven(), "rack=botom")

    def test_an_unknown_name_gets_the_nearest_and_all(self):
        with pytest.raises(
            UserError, match=r"There is no setting 'degree'\. Did you mean 'degrees'.*degrees, dish"
        ):
            override(Oven(), "degree=200")

    def test_a_field_that_is_no_setting_cannot_be_set(self):
        with pytest.raises(UserError, match="There is no setting 'serial'"):
            override(Oven(), "serial=8")

    def test_an_old_name_is_answered_with_the_new_one(self):
        with pytest.raises(UserError, match="The knob 'heat' is called 'degrees' here"):
            override(Oven(), "heat=200", what="knob", renamed={"heat": "degrees"})

    def test_errors_say_what_a_field_is_called(self):
        with pytest.raises(UserError, match="There is no knob 'x'"):
            override(Oven(), "x=1", what="knob")


def test_describe_gives_the_values_and_meanings_of_all_settings():
    assert describe(Oven(degrees=200)) == [
        "degrees=200: heat in degrees Celsius",
        "hours=1.5: time inside",
        "fan=False: whether the fan turns",
        "timer=10: minutes to the bell",
        "rack=middle: where the tin stands",
        "dish=bread: what is baked",
        "drift=0.0: error of the thermometer in degrees",
    ]


class TestNearest:
    def test_closest_first(self):
        assert nearest("dropuot", ["dropout", "attention_dropout", "d_ff"]).startswith(
            " Did you mean 'dropout'"
        )

    def test_nothing_close(self):
        assert nearest("zzz", ["dropout", "d_ff"]) == ""

    def test_at_most_three(self):
        assert nearest("aaaa", ["aaab", "aaac", "aaad", "aaae"]).count(" or ") == 2
