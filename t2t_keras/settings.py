"""Frozen dataclasses whose fields are typed, bounded, documented, and set by "name=value,...".

Hyperparameter sets, problems and decoding options are all such dataclasses, so one rule holds
for `--hparams`, `--problem_config` and `--decode_hparams`: an unknown name, a value of the wrong
type or one out of range is an error that says what was expected.
"""

import dataclasses
import math
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

from t2t_keras.errors import UserError, nearest

Settings = TypeVar("Settings")

_BOOLEANS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def setting(
    default: Any,
    meaning: str,
    *,
    minimum: float | None = None,
    maximum: float | None = None,
    choices: tuple = (),
    words: Mapping[str, Any] | None = None,
    of_test_set: bool = False,
) -> Any:
    """Declares a field: its default, its one documented meaning, and the values it may take.

    Args:
      default: the value when nothing is said.
      meaning: one line for users, with the unit and the paper's section or table.
      minimum: smallest allowed value, inclusive.
      maximum: largest allowed value, inclusive.
      choices: the allowed values, where they are few.
      words: words that may be written for a value, each with the value, such as {"auto": 0}.
      of_test_set: whether it says nothing about a problem but what its test set is, so that a model
        may be scored on another one than it was trained beside.
    """
    bounds = dict(
        meaning=meaning,
        minimum=minimum,
        maximum=maximum,
        choices=choices,
        words=words or {},
        of_test_set=of_test_set,
    )
    return dataclasses.field(default=default, metadata=bounds)


def parse_assignments(text: str) -> dict[str, str]:
    """Splits "name=value,name=value" (spaces around names and values are ignored).

    Raises:
      UserError: a part has no "=", no name, or a name comes twice.
    """
    assignments: dict[str, str] = {}
    for part in text.split(","):
        if not part.strip():
            continue
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not name:
            raise UserError(f"'{part.strip()}' is not of the form name=value, in '{text}'.")
        if name in assignments:
            raise UserError(f"'{name}' is given twice, in '{text}'.")
        assignments[name] = value
    return assignments


def override(
    settings: Settings,
    changes: str | Mapping[str, Any],
    *,
    what: str = "setting",
    renamed: Mapping[str, str] | None = None,
) -> Settings:
    """Returns a copy of `settings` with some fields changed and every field checked.

    Args:
      settings: an instance of a frozen dataclass made of `setting` fields.
      changes: "name=value,..." or a mapping from names to values (strings are converted).
      what: what a field is called in errors, e.g. "hyperparameter".
      renamed: names of the lineage, each with the name to use instead; after a comma, how its
        values differ.

    Raises:
      UserError: an unknown name (the nearest ones are given), a wrong type, a value out of range.
    """
    if isinstance(changes, str):
        changes = parse_assignments(changes)
    fields = {
        field.name: field for field in dataclasses.fields(settings) if "meaning" in field.metadata
    }
    types = typing.get_type_hints(type(settings))
    values = {}
    for name, value in changes.items():
        if name in (renamed or {}):
            ours, comma, difference = renamed[name].partition(",")
            raise UserError(f"The {what} '{name}' is called '{ours}' here{comma}{difference}.")
        if name not in fields:
            raise UserError(
                f"There is no {what} '{name}'.{nearest(name, fields)} "
                f"There are: {', '.join(sorted(fields))}."
            )
        words = fields[name].metadata.get("words", {})
        if isinstance(value, str):
            value = words.get(value.strip().lower(), value)
        values[name] = _converted(name, value, types[name], what)
    changed = dataclasses.replace(settings, **values)
    for name, field in fields.items():
        _check_range(name, getattr(changed, name), field.metadata, what)
    return changed


def describe(settings: Any) -> list[str]:
    """Returns a line "name=default: meaning" for every field, as help texts show it."""
    return [
        f"{field.name}={getattr(settings, field.name)}: {field.metadata['meaning']}"
        for field in dataclasses.fields(settings)
        if "meaning" in field.metadata
    ]


def _converted(name: str, value: Any, expected: type, what: str) -> Any:
    wrong = UserError(f"The {what} '{name}' takes {_TYPE_NAMES[expected]}; '{value}' came.")
    if isinstance(value, str) and expected is not str:
        value = _read(value, expected, wrong)
    elif expected is float and type(value) is int:
        value = float(value)
    if type(value) is not expected or (expected is float and not math.isfinite(value)):
        raise wrong
    return value


def _read(text: str, expected: type, wrong: UserError) -> Any:
    try:
        return _BOOLEANS[text.lower()] if expected is bool else expected(text)
    except (KeyError, ValueError):
        if expected is not int:
            raise wrong from None
    try:
        number = float(text)  # 1e5 is a whole number
    except ValueError:
        raise wrong from None
    if not number.is_integer():
        raise wrong
    return int(number)


_TYPE_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}


def _check_range(name: str, value: Any, bounds: Mapping[str, Any], what: str) -> None:
    minimum, maximum = bounds.get("minimum"), bounds.get("maximum")
    if bounds.get("choices") and value not in bounds["choices"]:
        allowed = ", ".join(str(choice) for choice in bounds["choices"])
        raise UserError(
            f"The {what} '{name}' is one of {allowed}; '{value}' came."
            f"{nearest(str(value), map(str, bounds['choices']))}"
        )
    # `not >=` rather than `<`, so that NaN is refused as well.
    if minimum is not None and not value >= minimum:
        raise UserError(f"The {what} '{name}' is at least {minimum}; {value} came.")
    if maximum is not None and not value <= maximum:
        raise UserError(f"The {what} '{name}' is at most {maximum}; {value} came.")
