"""Frozen dataclasses whose fields are typed, bounded, documented, and set by "name=value,...".

Hyperparameter sets, problems and decoding options are all such dataclasses. The value of a field
can be the name of something registered, as `activation=relu`. Lists and mappings are written in
YAML's flow style, as `filters=[length_ratio, duplicates]` and `augment={upper: 0.05, typos: 0.1}`.
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

from t2t_keras.environment import expanded
from t2t_keras.errors import UserError, brief, nearest

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Settings = TypeVar("Settings", bound="DataclassInstance")

_BOOLEANS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
_TYPE_NAMES = {bool: "true or false", int: "an integer", float: "a number", str: "a string"}
# A value that begins with one of these is YAML; plain values contain only these characters.
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
    """Declares a field: its default, its one documented meaning, and the values it may take.

    Args:
      default: the default value.
      meaning: one line for users, with the unit and the paper's section or table.
      minimum: smallest allowed value, inclusive.
      maximum: largest allowed value, inclusive.
      choices: the allowed values of a string, of the strings of a list, or of the names of a
        mapping; a `Registry` for the names in it.
      words: words that may be written for a value, such as {"auto": 0}.
      of_test_set: whether the field describes nothing but the test set of a problem, so that a
        model may be scored with another value than it was trained with.
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
    `"a,b"`, see `parse_yaml`; others are strings up to the next comma.

    Raises:
      UserError: it has another form, or a name comes twice.
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
            assignments[name.strip()] = _parse_divided(value, parts, name.strip())
        else:
            assignments[name.strip()] = value.strip()
    return assignments


def _parse_divided(text: str, rest: list[str], name: str) -> Any:
    """Returns the value of YAML that begins with `text`; takes what belongs to it from `rest`."""
    while True:
        try:
            return parse_yaml(text, name)
        except UserError as error:
            if error.code != "not_yaml" or not rest:
                raise
            text = f"{text},{rest.pop(0)}"


def parse_yaml(text: str, origin: str) -> Any:
    """Returns the lists, mappings and strings that are written as YAML; numbers remain strings.

    Raises:
      UserError: it is not YAML, has aliases, or a name comes twice in a mapping.
    """
    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, yaml.BaseLoader)):
            raise UserError(
                f"{origin}: expected YAML without aliases. Write their values instead.",
                code="bad_value",
            )
        return _without_nodes(yaml.compose(text, yaml.BaseLoader), origin)
    except (yaml.YAMLError, RecursionError) as error:
        raise UserError(f"{origin}: expected YAML ({brief(error)}).", code="not_yaml") from error


def _without_nodes(node: Any, origin: str) -> Any:
    if isinstance(node, yaml.SequenceNode):
        return [_without_nodes(item, origin) for item in node.value]
    if not isinstance(node, yaml.MappingNode):
        return node.value if node else ""
    values: dict[str, Any] = {}
    for name, value in node.value:
        if not isinstance(name, yaml.ScalarNode):
            raise UserError(f"{origin}: expected a name before each ':'.", code="bad_value")
        if ":" in name.value and not getattr(value, "value", ""):
            raise UserError(
                f"{origin}: expected a space after ':' in '{name.value}'.", code="bad_value"
            )
        if name.value in values:
            raise UserError(f"{origin}: '{name.value}' is given twice.", code="given_twice")
        values[name.value] = _without_nodes(value, origin)
    return values


def as_text(value: Any) -> str:
    """Returns the text from which `parse_assignments` reads a value."""
    if isinstance(value, Mapping):
        return (
            f"{{{', '.join(f'{as_text(name)}: {as_text(each)}' for name, each in value.items())}}}"
        )
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(as_text, value))}]"
    if isinstance(value, str) and not _PLAIN.fullmatch(value):
        return json.dumps(value, ensure_ascii=False)
    return str(value)


def as_assignments(values: Mapping[str, Any]) -> str:
    """Returns the "name=value,..." from which `parse_assignments` reads values."""
    return ",".join(f"{name}={as_text(value)}" for name, value in values.items())


def override(
    settings: Settings,
    changes: str | Mapping[str, Any],
    *,
    what: str = "setting",
    renamed: Mapping[str, str] | None = None,
) -> Settings:
    """Returns a copy of `settings` with some fields changed and every field checked.

    `changes` is "name=value,..." or a mapping from names to values (strings are converted);
    `renamed` has tensor2tensor's names, each with ours and, after a comma, how its values differ.

    Raises:
      UserError: an unknown name (the nearest ones are given), a wrong type, a value out of range.
    """
    if isinstance(changes, str):
        changes = parse_assignments(changes)
    fields = {
        field.name: field for field in dataclasses.fields(settings) if "meaning" in field.metadata
    }
    types = typing.get_type_hints(type(settings))
    renamed, values = renamed or {}, {}
    for name, value in changes.items():
        if name in renamed:
            ours, comma, difference = renamed[name].partition(",")
            raise UserError(
                f"The {what} '{name}' is called '{ours}' here{comma}{difference}.",
                code="unknown_name",
            )
        if name not in fields:
            raise UserError(
                f"There is no {what} '{name}'.{nearest(name, fields)} "
                f"Choose from {', '.join(sorted(fields))}.",
                code="unknown_name",
            )
        if isinstance(value, str):
            value = fields[name].metadata["words"].get(value.strip().lower(), value)
            value = expanded(value) if fields[name].metadata["is_path"] else value
        values[name] = convert(value, types[name], f"The {what} '{name}'")
    changed = dataclasses.replace(settings, **values)
    for name, field in fields.items():
        # Defaults are valid; checking a registered name would import its module.
        if (value := getattr(changed, name)) != field.default:
            _check_range(value, field.metadata, f"The {what} '{name}'")
    return changed


def typed(kind: type, values: Mapping[str, Any], what: str) -> dict[str, Any]:
    """Converts recorded values of a settings class; raises `UserError` for a wrong type."""
    types = typing.get_type_hints(kind)
    return {
        name: convert(value, types[name], f"The {what} '{name}'") for name, value in values.items()
    }


def describe(settings: Any) -> list[str]:
    """Returns a line "name=default: meaning" for every field, as help texts show it."""
    return [
        f"{field.name}={as_text(getattr(settings, field.name))}: {field.metadata['meaning']}"
        for field in dataclasses.fields(settings)
        if "meaning" in field.metadata
    ]


def plain(value: Any) -> Any:
    """Returns a setting's value as JSON has it: lists are lists, not tuples."""
    return list(value) if isinstance(value, tuple) else value


def convert(value: Any, expected: Any, subject: str) -> Any:
    """Returns a value of a type, also from a string; `UserError` where it cannot be one.

    Types are bool, int, float, str, `tuple[type, ...]` and `Mapping[str, type]`. A list of one may
    be that one, without brackets; "" is an empty list or mapping.
    """
    kind, of = typing.get_origin(expected), typing.get_args(expected)
    if kind is tuple:
        items = value if isinstance(value, list | tuple) else [value] if value != "" else []
        return tuple(convert(item, of[0], subject) for item in items)
    if kind is Mapping:
        values = {} if value == "" else value
        if not isinstance(values, Mapping) or not all(isinstance(name, str) for name in values):
            raise UserError(
                f"{subject} must have names with values, as {{a: 0.8, b: 0.2}}, got "
                f"{brief(value)}.",
                code="bad_value",
            )
        return {name: convert(each, of[1], subject) for name, each in values.items()}
    # NumPy's scalars, as a sweep over an array gives them, are numbers too.
    converted = value = value.item() if _is_numpy_number(value) else value
    if isinstance(value, str) and expected is not str:
        converted = _read(value, expected)
    elif expected is float and type(value) is int:
        with contextlib.suppress(OverflowError):
            converted = float(value)
    if type(converted) is not expected or (expected is float and not math.isfinite(converted)):
        raise UserError(
            f"{subject} must be {_TYPE_NAMES[expected]}, got {brief(value)}.", code="bad_value"
        )
    return converted


def _is_numpy_number(value: Any) -> bool:
    return isinstance(value, numbers.Number) and hasattr(value, "item")


def _read(text: str, expected: type) -> Any:
    """Returns the value that a string stands for, or None."""
    if expected is bool:
        return _BOOLEANS.get(text.lower())
    with contextlib.suppress(ValueError):
        return expected(text)
    with contextlib.suppress(ValueError):
        number = float(text)  # 1e5 is an integer.
        return int(number) if number.is_integer() else None
    return None


def _check_range(value: Any, bounds: Mapping[str, Any], subject: str) -> None:
    """Checks a value, each of a list, or the names and the numbers of a mapping."""
    if isinstance(value, tuple):
        for each in value:
            _check_range(each, bounds, subject)
        return
    minimum, maximum, choices = bounds["minimum"], bounds["maximum"], bounds["choices"]
    is_mapping = isinstance(value, Mapping)
    for name in value if is_mapping else [value]:
        if choices and name not in choices:
            raise UserError(
                f"{subject} must be one of {', '.join(choices)}, got {brief(name)}."
                f"{nearest(str(name), choices)}",
                code="bad_value",
            )
    for number in value.values() if is_mapping else [value]:
        # `not >=` rather than `<`, so that NaN is refused as well.
        if minimum is not None and not number >= minimum:
            raise UserError(
                f"{subject} must be >= {minimum}, got {brief(number)}.", code="bad_value"
            )
        if maximum is not None and not number <= maximum:
            raise UserError(
                f"{subject} must be <= {maximum}, got {brief(number)}.", code="bad_value"
            )
