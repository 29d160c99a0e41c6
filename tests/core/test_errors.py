"""Parts of error messages: near names, commands and short values, at their limits."""

import re
import shlex

import pytest
from refusals import refused

from t2t_keras.errors import (
    OutOfMemoryError,
    UserError,
    command_line,
    shorten,
    suggest,
    translated_errors,
    translated_memory_errors,
    unknown_name,
)


def test_near_names():
    known = ["bleu", "blue", "bluet", "bled", "chrf"]
    assert len(re.findall(r"'\w+'", suggest("blu", known))) == 3, "three at most"
    assert re.findall(r"'\w+'", suggest("chr", known)) == ["'chrf'"]
    assert suggest("xyz", known) == ""


def test_a_command_has_every_value_but_those_that_are_not_given():
    command = command_line("t2t-x", "a b", n=0, ema=False, name="", path=None, text="c'd")
    assert command.startswith("\n  t2t-x ")
    assert shlex.split(command)[1:] == ["a b", "--n=0", "--ema=False", "--text=c'd"]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (ValueError("a" * 5), "aaaaa"),
        (ValueError("a" * 6), "aaaaa ..."),
        (ValueError(" a\n\tb "), "a b"),
        (ValueError(), "Value ..."),
        (12345, "12345"),
        pytest.param(10**5000, "a num ...", id="digits"),
    ],
)
def test_a_value_is_one_short_line(value, shown):
    assert shorten(value, max_length=5) == shown


def test_only_errors_of_its_kind_and_sign_are_missing_memory():
    for error, kind in (
        (ValueError("OOM here"), OutOfMemoryError),
        (ValueError("else"), ValueError),
        (KeyError("OOM"), KeyError),
    ):
        with pytest.raises(kind), translated_memory_errors(ValueError, "OOM"):
            raise error


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (OSError(28, "No space", "a.txt"), "It failed: No space (a.txt). Do that."),
        (OSError(28, "No space", "It"), "It failed: No space. Do that."),
        (ValueError("a\nb"), "It failed: ValueError: a b. Do that."),
        (UserError("as it was", code="busy"), "as it was"),
    ],
)
def test_errors_of_other_libraries_get_a_text_and_advice(error, text):
    code = getattr(error, "code", "failed")
    with (
        refused(code) as refusal,
        translated_errors(Exception, "It failed", "Do that.", code="failed"),
    ):
        raise error
    assert str(refusal.value) == text


def test_an_error_of_another_kind_passes():
    with pytest.raises(KeyError), translated_errors((OSError, ValueError), "a", code="failed"):
        raise KeyError("b")


def test_a_name_that_is_unknown():
    error = unknown_name("fruit", "aple", ["apple", "pear"], "Buy one.")
    assert error.code == "unknown_name"
    assert [name in str(error) for name in ("'aple'", "'apple'", "apple, pear", "Buy one.")] == [
        True
    ] * 4


def test_an_error_has_a_code_and_a_status():
    errors = UserError("a"), UserError("a", 75, code="busy")
    assert [(e.exit_status, e.code, str(e)) for e in errors] == [
        (2, "bad_input", "a"),
        (75, "busy", "a"),
    ]
