"""Frozen dataclasses whose fields are typed, bounded, documented, and set by "name=value,...".

Hyperparameter sets, problems and decoding options are such dataclasses. Lists and mappings are
written in YAML's flow style: `filters=[length_ratio, duplicates]`, `augment={upper: 0.05}`.
"""

import contextlib
import dataclasses
import json
import math
import numbers
import re
import typing
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import yaml

from t2t_keras.environment import expand_path
from t2t_keras.errors import UserError, shorten, suggest, unknown_name

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Settings = TypeVar("Settings", bound="DataclassInstance")

_BOOLEANS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
_TYPE_NAMES = {bool: "true or false", int: "an integer", float: "a number", str: "a string"}
# How YAML values begin; and the values that `as_text` writes without quotation marks.
_YAML_STARTS, _PLAIN = tuple("[{\"'"), re.compile(r"[\w<./][\w<>./+*-]*")


def setting(
    default: Any,
    meaning: str,
    *,
    minimum: float | None = None,
    maximum: float | None = None,
    choices: Iterable[str] = (),
    words: Mapping[str, Any] | None = None,
    of_test_set: bool = False,
    is_path: bool = False,
) -> Any:
    """Declares a field: its default, its documented meaning, and its allowed values.

    Args:
      default: the default value.
      meaning: one line for users, with the unit and the paper's section or table.
      minimum: smallest allowed value, inclusive.
      maximum: largest allowed value, inclusive.
      choices: what a string, each string of a list, or each name of a mapping may be; with a
        `Registry`, the registered names.
      words: words for certain values, such as {"auto": 0}.
      of_test_set: whether the field only describes the test set of a problem, so that its value may
        differ between training and scoring.
      is_path: whether it is a path, in which a leading ~ becomes the home directory.
    """
    bounds = dict(minimum=minimum, maximum=maximum, choices=choices)
    metadata = dict(meaning=meaning, words=words or {}, of_test_set=of_test_set, **bounds)
    metadata["is_path"] = is_path
    if isinstance(default, dict):
        return dataclasses.field(default_factory=default.copy, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def parse_assignments(text: str) -> dict[str, Any]:
    """Splits "name=value,name=value" (spaces around names and values are ignored).

    A value that begins with a bracket or a quotation mark is YAML, as `[a, b]`, `{a: 1, b: 2}` or
    `"a,b"`; any other value is a string up to the next comma.

    Raises:
      UserError: the text is not of this form, or a name is repeated.
    """
    assignments: dict[str, Any] = {}
    parts = text.split(",")
    while parts:
        name, equals, value = parts.pop(0).partition("=")
        if not equals and not name.strip():
            continue
        if not equals or not name.strip():
            raise UserError(
                f"Expected name=value, got '{(name + equals + value).strip()}' in '{text}'.",
                code="bad_value",
            )
        if name.strip() in assignments:
            raise UserError(f"'{name.strip()}' is given twice in '{text}'.", code="given_twice")
        if value.lstrip().startswith(_YAML_STARTS):
            assignments[name.strip()] = _parse_yaml_value(value, parts, name.strip())
        else:
            assignments[name.strip()] = value.strip()
    return assignments


def _parse_yaml_value(text: str, parts: list[str], name: str) -> Any:
    """Returns the YAML value that begins with `text`; takes its remaining parts from `parts`."""
    while True:
        try:
            return parse_yaml(text, name)
        except UserError as error:
            if error.code != "not_yaml" or not parts:
                raise
            text = f"{text},{parts.pop(0)}"


def parse_yaml(text: str, origin: str) -> Any:
    """Returns the lists, mappings and strings in a YAML text; numbers remain strings.

    Raises:
      UserError: it is not YAML, has aliases, or a mapping repeats a name.
    """
    loader = _Loader(text)
    loader.origin = origin
    try:
        value = loader.get_single_data()
    except (yaml.YAMLError, RecursionError) as error:
        raise UserError(f"{origin}: expected YAML ({shorten(error)}).", code="not_yaml") from error
    return "" if value is None else value


class _Loader(yaml.BaseLoader):
    """Reads scalars as strings; refuses aliases and repeated names."""

    origin = ""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise UserError(
                f"{self.origin}: expected YAML without aliases. Write their values instead.",
                code="bad_value",
            )
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        values: dict[str, Any] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise UserError(
                    f"{self.origin}: expected a name before each ':'.", code="bad_value"
                )
            name = key.value
            if ":" in name and not value.value:
                raise UserError(
                    f"{self.origin}: expected a space after ':' in '{name}'.", code="bad_value"
                )
            if name in values:
                raise UserError(f"{self.origin}: '{name}' is given twice.", code="given_twice")
            values[name] = self.construct_object(value)
        return values


def as_text(value: Any) -> str:
    """Returns the text that `parse_assignments` reads back as this value."""
    if isinstance(value, Mapping):
        items = (f"{as_text(name)}: {as_text(item)}" for name, item in value.items())
        return f"{{{', '.join(items)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(as_text, value))}]"
    if isinstance(value, str) and not _PLAIN.fullmatch(value):
        return json.dumps(value, ensure_ascii=False)
    return str(value)


def as_assignments(values: Mapping[str, Any]) -> str:
    """Returns the "name=value,..." that `parse_assignments` reads back as these values."""
    return ",".join(f"{name}={as_text(value)}" for name, value in values.items())


def override(
    settings: Settings,
    changes: str | Mapping[str, Any],
    *,
    noun: str = "setting",
    new_names: Mapping[str, str] | None = None,
) -> Settings:
    """Returns a copy of `settings` with some fields changed and every field checked.

    Args:
      settings: the settings.
      changes: "name=value,..." or a mapping from names to values; strings are converted.
      noun: what errors call a field.
      new_names: tensor2tensor's name -> the name used here and, after a comma, how its values
        differ.

    Raises:
      UserError: an unknown name, a wrong type, or a value out of range.
    """
    if isinstance(changes, str):
        changes = parse_assignments(changes)
    fields, types = setting_fields(settings), typing.get_type_hints(type(settings))
    values = {}
    for name, value in changes.items():
        if new_names and name in new_names:
            new_name, comma, difference = new_names[name].partition(",")
            raise UserError(
                f"The {noun} '{name}' is called '{new_name}' here{comma}{difference}.",
                code="unknown_name",
            )
        if name not in fields:
            raise unknown_name(noun, name, sorted(fields))
        if isinstance(value, str):
            value = fields[name].metadata["words"].get(value.strip().lower(), value)
            value = expand_path(value) if fields[name].metadata["is_path"] else value
        values[name] = convert(value, types[name], f"The {noun} '{name}'")
    new_settings = dataclasses.replace(settings, **values)
    check(new_settings, noun)
    return new_settings


def setting_fields(settings: Any) -> dict[str, dataclasses.Field[Any]]:
    """Returns the fields of a settings object that are settings, by name."""
    fields = dataclasses.fields(settings)
    return {field.name: field for field in fields if "meaning" in field.metadata}


def json_value(value: Any) -> Any:
    """Returns a setting's value as JSON represents it: a list instead of a tuple."""
    return list(value) if isinstance(value, tuple) else value


def check(settings: Settings, noun: str = "setting") -> None:
    """Raises `UserError` for a field that is out of its range or not one of its choices."""
    for name, field in setting_fields(settings).items():
        # Defaults are valid; checking a registered name would import its module.
        if (value := getattr(settings, name)) != field.default:
            _check_range(value, field.metadata, f"The {noun} '{name}'")


def convert_all(settings_class: type, values: Mapping[str, Any], noun: str) -> dict[str, Any]:
    """Converts values for fields of a settings class; raises `UserError` for a wrong type."""
    types = typing.get_type_hints(settings_class)
    return {
        name: convert(value, types[name], f"The {noun} '{name}'") for name, value in values.items()
    }


def describe(settings: Any) -> list[str]:
    """Returns a line "name=default: meaning" for every setting, as help texts show it."""
    return [
        f"{name}={as_text(getattr(settings, name))}: {field.metadata['meaning']}"
        for name, field in setting_fields(settings).items()
    ]


def convert(value: Any, expected: Any, subject: str) -> Any:
    """Converts a value, or its text, to a type.

    Args:
      value: the value. A single item stands for a list of one; "" is an empty list or mapping.
      expected: bool, int, float, str, `tuple[type, ...]` or `Mapping[str, type]`.
      subject: the beginning of error messages.

    Raises:
      UserError: the value is not of this type.
    """
    kind, arguments = typing.get_origin(expected), typing.get_args(expected)
    if kind is tuple:
        items = value if isinstance(value, list | tuple) else [value] if value != "" else []
        return tuple(convert(item, arguments[0], subject) for item in items)
    if kind is Mapping:
        values = {} if value == "" else value
        if not isinstance(values, Mapping) or not all(isinstance(name, str) for name in values):
            raise UserError(
                f"{subject} must be a mapping from names to values, such as {{a: 0.8, b: 0.2}}, "
                f"got {shorten(value)}.",
                code="bad_value",
            )
        return {name: convert(item, arguments[1], subject) for name, item in values.items()}
    if isinstance(value, numbers.Number) and hasattr(value, "item"):
        value = value.item()  # A NumPy scalar, as in a sweep over an array.
    converted = value
    if isinstance(value, str) and expected is not str:
        converted = _parse(value, expected)
    elif expected is float and type(value) is int:
        with contextlib.suppress(OverflowError):
            converted = float(value)
    if type(converted) is not expected or (expected is float and not math.isfinite(converted)):
        raise UserError(
            f"{subject} must be {_TYPE_NAMES[expected]}, got {shorten(value)}.", code="bad_value"
        )
    return converted


def _parse(text: str, expected: type) -> Any:
    """Converts a string to a type; returns None if it does not fit."""
    if expected is bool:
        return _BOOLEANS.get(text.lower())
    with contextlib.suppress(ValueError):
        return expected(text)
    with contextlib.suppress(ValueError):
        number = float(text)  # 1e5 is an integer.
        return int(number) if number.is_integer() else None
    return None


def _check_range(value: Any, bounds: Mapping[str, Any], subject: str) -> None:
    """Checks a value, all items of a list, or the names and numbers of a mapping."""
    minimum, maximum, choices = bounds["minimum"], bounds["maximum"], bounds["choices"]
    for item in value if isinstance(value, tuple) else [value]:
        is_mapping = isinstance(item, Mapping)
        for name in item if is_mapping else [item]:
            if choices and name not in choices:
                raise UserError(
                    f"{subject} must be one of {', '.join(choices)}, got {shorten(name)}."
                    f"{suggest(str(name), choices)}",
                    code="bad_value",
                )
        for number in item.values() if is_mapping else [item]:
            # `not >=` rather than `<`, so that NaN is refused as well.
            if minimum is not None and not number >= minimum:
                raise UserError(
                    f"{subject} must be >= {minimum}, got {shorten(number)}.", code="bad_value"
                )
            if maximum is not None and not number <= maximum:
                raise UserError(
                    f"{subject} must be <= {maximum}, got {shorten(number)}.", code="bad_value"
                )
