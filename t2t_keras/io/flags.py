"""The flags of a command, from its command line and a config file, with help in groups."""

import dataclasses
import math
import shutil
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from absl import flags as absl_flags

from t2t_keras.environment import expand_path
from t2t_keras.errors import UserError, command_line, shorten, suggest
from t2t_keras.io.files import read_bounded
from t2t_keras.settings import as_assignments, parse_assignments, parse_yaml

_MEANING_COLUMN = 30
# Groups under this title are shown by --helpfull only.
HIDDEN = "Rarely needed"
# Flags that a config file cannot set.
_NOT_IN_CONFIG = ("config", "flagfile", "undefok", "help", "helpfull", "registry_help", "version")


class Flags(absl_flags.FlagValues):
    """The flags of one command; a flag belongs to the group that was started last.

    Each command makes its own `Flags`, so that one process can call several commands.
    """

    groups: dict[str, list[str]]  # Title -> names of flags.
    _notes: dict[str, "str | Callable[[Flags], str]"]  # Flag -> note.
    _arguments: dict[str, str]  # Argument -> meaning.
    _setting_listers: dict[str, Callable[[], Iterable[str]]]  # Flag -> lists its settings.

    def __init__(self) -> None:
        super().__init__()
        # Set this way, as absl would take these attributes for flags.
        self.__dict__.update(groups={}, _notes={}, _arguments={}, _setting_listers={})
        self.set_gnu_getopt(True)  # Flags may follow arguments.

    def group(self, title: str) -> None:
        """Starts a group of flags."""
        self.groups.setdefault(title, [])

    def string(self, name: str, meaning: str, default: str | None = "", note: str = "") -> None:
        """Defines a flag that takes a string; `note` is shown by --helpfull."""
        absl_flags.DEFINE_string(name, default, meaning, flag_values=self)
        self._notes[name] = note

    def assignments(
        self, name: str, meaning: str, note: "str | Callable[[Flags], str]" = ""
    ) -> None:
        """Defines a flag that takes "name=value,..."; its value is a mapping.

        A `note` that depends on other flags is a function of them.
        """
        self._define_list(_AssignmentsParser(), name, "", meaning)
        self._notes[name] = note

    def path(self, name: str, meaning: str, default: str = "") -> None:
        """Defines a flag that takes a path."""
        absl_flags.DEFINE(_PathParser(), name, default, meaning, flag_values=self)

    def paths(self, name: str, meaning: str) -> None:
        """Defines a flag that takes paths separated by commas."""
        self._define_list(_PathsParser(), name, None, meaning)

    def settings(self, listers: Mapping[str, Callable[[], Iterable[str]]]) -> None:
        """Takes functions that list a flag's settings, for advice if one is given as a flag."""
        self._setting_listers.update(listers)

    def switch(self, name: str, meaning: str, default: bool | None = False) -> None:
        """Defines a flag that is on or off; default None = not given."""
        absl_flags.DEFINE_boolean(name, default, meaning, flag_values=self)

    def integer(
        self,
        name: str,
        meaning: str,
        default: int | None = None,
        minimum: int = 0,
        maximum: int | None = None,
    ) -> None:
        """Defines a flag that takes an integer; default None = not given."""
        absl_flags.DEFINE_integer(name, default, meaning, minimum, maximum, flag_values=self)

    def number(self, name: str, meaning: str, default: float, minimum: float = 0.0) -> None:
        """Defines a flag that takes a number."""
        absl_flags.DEFINE_float(name, default, meaning, minimum, flag_values=self)
        absl_flags.register_validator(name, math.isfinite, "must be finite", flag_values=self)

    def choice(self, name: str, meaning: str, choices: Sequence[str], default: str | None) -> None:
        """Defines a flag that takes one of `choices`, which absl shows before its meaning."""
        absl_flags.DEFINE_enum(name, default, choices, meaning, flag_values=self)

    def known_name(
        self, name: str, meaning: str, known: Iterable[str], default: str | None
    ) -> None:
        """Defines a flag that takes a name; its help lists the `known` ones.

        The command looks it up, since a user's own files register names only after parsing.
        """
        self.string(name, f"<{'|'.join(known)}>: {meaning}", default)

    def strings(self, name: str, meaning: str) -> None:
        """Defines a flag that takes strings separated by commas."""
        self._define_list(absl_flags.ListParser(), name, None, meaning)

    def fields(self, settings_class: Any, *names: str) -> None:
        """Defines flags for fields of a settings class, with their meanings and bounds."""
        fields = {field.name: field for field in dataclasses.fields(settings_class)}
        for name in names:
            default: Any = fields[name].default
            metadata = fields[name].metadata
            meaning = f"{metadata['meaning'][0].upper()}{metadata['meaning'][1:]}"
            if isinstance(default, bool):
                self.switch(name, meaning, default)
            elif isinstance(default, int):
                self.integer(name, meaning, default, metadata["minimum"], metadata["maximum"])
            elif isinstance(default, float):
                self.number(name, meaning, default, metadata["minimum"])
            elif isinstance(default, tuple):
                self.strings(name, meaning)
            elif metadata["choices"]:
                self.choice(name, meaning, metadata["choices"], default)
            elif metadata["is_path"]:
                self.path(name, meaning, default)
            else:
                self.string(name, meaning, default)

    def _define_list(
        self, parser: absl_flags.ArgumentParser, name: str, default: str | None, meaning: str
    ) -> None:
        flag = _ListFlag(parser, None, name, default, meaning)
        absl_flags.DEFINE_flag(flag, flag_values=self)

    def named_paths(self, name: str, meaning: str) -> None:
        """Defines a flag that takes PATH or NAME=PATH and may be given several times."""
        self.repeatable_text(name, meaning)
        self[name].parser = _NamedPathParser()

    def repeatable_text(self, name: str, meaning: str) -> None:
        """Defines a flag that takes text and may be given several times."""
        absl_flags.DEFINE_multi_string(name, None, meaning, flag_values=self)
        self[name].help = meaning  # Without the text that absl adds.

    def arguments(self, name: str, meaning: str) -> None:
        """Defines the positional arguments; parsing sets the attribute `name` to their list."""
        self._arguments[name] = meaning
        self.__dict__[name] = []

    def __setitem__(self, name: str, flag: absl_flags.Flag) -> None:
        super().__setitem__(name, flag)
        self.groups.setdefault(next(reversed(self.groups), HIDDEN), []).append(name)

    def parse(self, argv: Sequence[str]) -> None:
        """Reads the flags of a command line, program name first, and those of its --config.

        --dry-run means --dry_run, and -h --help.

        Raises:
          UserError: there is no such flag, or its value is wrong.
        """
        try:
            arguments = self(list(map(self._with_underscores, argv)))
            if "config" in self and self.config:
                self._read_config(self.config)
                self.validate_all_flags()
        except absl_flags.UnrecognizedFlagError as error:
            advice = self._setting_advice(argv, error.flagname) or suggest(error.flagname, self)
            raise UserError(
                f"There is no flag --{error.flagname}.{advice}", code="unknown_flag"
            ) from None
        except absl_flags.Error as error:
            if isinstance(error.__context__, UserError):  # The parser's own error says more.
                raise error.__context__ from None
            raise UserError(str(error), code="bad_value") from None
        for name in self._arguments:
            self.__dict__[name], arguments = arguments[1:], []
        if arguments[1:]:
            raise UserError(
                f"Expected flags of the form --name=value, got '{arguments[1]}'.",
                code="bad_arguments",
            )

    def _read_config(self, path: str) -> None:
        """Sets flags and settings from a YAML file, except those of the command line."""
        try:
            values = parse_yaml(read_bounded(path).decode("utf-8"), path)
        except UnicodeDecodeError as error:
            raise UserError(f"{path} is not UTF-8: {shorten(error)}.", code="not_utf8") from error
        if not isinstance(values, dict):
            raise UserError(
                f"{path}: expected flags and their values, such as output_dir: runs/base.",
                code="bad_configuration",
            )
        for name, value in values.items():
            if name not in self or name in _NOT_IN_CONFIG:
                listers = self._setting_listers.items()
                owner = next((f"{flag}:" for flag, lister in listers if name in lister()), "")
                advice = f" Write it below {owner}" if owner else suggest(name, self)
                raise UserError(f"{path}: there is no flag '{name}'.{advice}", code="unknown_flag")
            flag = self[name]
            value = _parser_input(flag, value, f"{path}: {name}")
            if isinstance(flag.value, dict):
                from_command_line = flag.value if flag.present else {}
                flag.present = 0
                flag.parse(value)
                flag.value = flag.value | from_command_line
            elif not flag.present:
                flag.parse(value)

    def _setting_advice(self, argv: Sequence[str], unknown: str) -> str:
        """Returns advice to give a setting through its flag; "" if `unknown` is not a setting."""
        name = unknown.replace("-", "_")
        for flag, lister in self._setting_listers.items():
            if flag not in self or name not in lister():
                continue
            typed = next((text for text in argv if text.partition("=")[0] == f"--{unknown}"), "")
            value = typed.partition("=")[2]
            assignments = [text for text in argv[1:] if text.startswith(f"--{flag}=")]
            unrelated = [text for text in argv[1:] if text != typed and text not in assignments]
            settings = parse_assignments(",".join(text.partition("=")[2] for text in assignments))
            text = as_assignments(settings | parse_assignments(f"{name}={value}"))
            command = command_line(
                Path(argv[0]).stem.replace("_", "-"), *unrelated, f"--{flag}={text}"
            )
            return f" {name} is a setting of --{flag}" + (f":{command}" if value else ".")
        return ""

    def _with_underscores(self, argument: str) -> str:
        """Returns an argument with underscores instead of dashes in the name of a known flag."""
        if argument == "-h":
            return "--help"
        name, equals, value = argument.removeprefix("--").partition("=")
        flag = name.replace("-", "_")
        if flag.startswith("no_") and flag.removeprefix("no_") in self:
            flag = flag.replace("no_", "no", 1)
        known = argument.startswith("--") and (flag in self or flag.removeprefix("no") in self)
        return f"--{flag}{equals}{value}" if known else argument

    def help_text(self, description: str, full: bool) -> str:
        """Returns a description and the help of each group; `full` adds hidden groups and notes."""
        text = description.strip()
        for name, meaning in self._arguments.items():
            text += f"\n\nArguments:{_help_entry(name, meaning)}"
        for title, names in self.groups.items():
            if full or title != HIDDEN:
                text += f"\n\n{title}:" + "".join(self._flag_help(name, full) for name in names)
        return text if full else f"{text}\n\n--helpfull shows all flags."

    def _flag_help(self, name: str, full: bool) -> str:
        flag = self[name]
        meaning = flag.help
        if flag.default not in (None, "", False, {}):
            default = flag.default
            meaning += f" [{default:g}]" if isinstance(default, float) else f" [{default}]"
        note = self._notes.get(name, "") if full else ""
        text = note(self) if callable(note) else note
        lines = text.split("\n") if text else []
        return _help_entry(f"--{name}", meaning) + "".join(f"\n{_wrap(line)}" for line in lines)


def _parser_input(flag: absl_flags.Flag, value: Any, subject: str) -> Any:
    """Returns a config file's value as input for the flag's parser, or raises `UserError`."""
    if isinstance(flag.parser, _AssignmentsParser):
        if isinstance(value, str | dict):
            return value
        raise UserError(
            f'{subject}: expected settings, such as {{name: value}} or "name=value", got '
            f"{shorten(value)}.",
            code="bad_value",
        )
    expected, parts = "text or a list of texts", value if isinstance(value, list) else [value]
    if isinstance(flag.parser, _NamedPathParser):
        expected += ", or a mapping from names to paths, such as {name: path}"
        if isinstance(value, dict):
            parts = [*value.values()]
    if all(isinstance(part, str) for part in parts):
        return [f"{n}={p}" for n, p in value.items()] if isinstance(value, dict) else value
    raise UserError(f"{subject}: expected {expected}, got {shorten(value)}.", code="bad_value")


def _help_entry(name: str, meaning: str) -> str:
    """Returns a line feed and a name with its meaning next to it."""
    indent = " " * _MEANING_COLUMN
    head = f"  {name}  ".ljust(_MEANING_COLUMN)
    if len(head) > _MEANING_COLUMN:
        head = f"{head.rstrip()}\n{indent}"
    lines = textwrap.fill(meaning, _help_width(), initial_indent=indent, subsequent_indent=indent)
    return f"\n{head}{lines.lstrip()}"


def _wrap(note: str) -> str:
    return textwrap.fill(
        note,
        _help_width(),
        initial_indent=" " * 6,
        subsequent_indent=" " * 10,
        break_on_hyphens=False,
    )


def _help_width() -> int:
    return max(60, min(shutil.get_terminal_size((100, 24)).columns, 100))


class _PathParser(absl_flags.ArgumentParser):
    """Reads a path that may begin with ~ or ~user."""

    def parse(self, argument: str) -> str:
        return expand_path(argument)


class _NamedPathParser(_PathParser):
    """Reads PATH or NAME=PATH."""

    def parse(self, argument: str) -> str:
        name, equals, path = argument.partition("=")
        if equals and (path.startswith("~") or "://" in path):
            return f"{name}={expand_path(path)}"
        return super().parse(argument)


class _PathsParser(absl_flags.ListParser):
    """Reads paths separated by commas."""

    def parse(self, argument: str | list[str]) -> list[str]:
        return list(map(expand_path, super().parse(argument)))


class _AssignmentsParser(absl_flags.ArgumentParser):
    """Reads "name=value,...", or a mapping from a config file."""

    def parse(self, argument: str | dict[str, Any]) -> dict[str, Any]:
        return argument if isinstance(argument, dict) else parse_assignments(argument)


class _ListFlag(absl_flags.Flag):
    """A flag that takes parts separated by commas; giving it again adds parts."""

    def parse(self, argument: Any) -> None:
        earlier_value: Any = self.value if self.present else None
        super().parse(argument)
        parsed: Any = self.value
        if isinstance(earlier_value, dict):
            if repeated_names := earlier_value.keys() & parsed.keys():
                raise UserError(
                    f"--{self.name}: '{min(repeated_names)}' is given twice.", code="given_twice"
                )
            self.value = earlier_value | parsed
        elif earlier_value:
            self.value = earlier_value + parsed
