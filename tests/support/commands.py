"""The commands of this checkout and its wings, as their entry points name them."""

import configparser
import importlib
import shlex
from pathlib import Path

import pytest

_FILE = Path(__file__).parents[2] / "entry_points.txt"


def modules_of_commands():
    """The name of the module of each command, as "t2t-decoder"."""
    points = configparser.ConfigParser()
    points.read(_FILE, encoding="utf-8")
    scripts = points["console_scripts"].items()
    return {command: value.removesuffix(":run") for command, value in scripts}


def module_of(command):
    """The module of a command, or of a command line."""
    return importlib.import_module(modules_of_commands()[command.split()[0]])


def call(command):
    """Runs a command line as a shell would."""
    program, *arguments = shlex.split(command)
    module_of(program).run([program, *arguments])


@pytest.fixture
def refused(capsys):
    """refused("code name value ...", command, flag, ...): expects one message without output.

    The names and values stand in the message, which is what is returned.
    """

    def refused(error, command, *flags):
        code, *names = error.split()
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            module_of(command).run([command, *map(str, flags)])
        printed = capsys.readouterr()
        assert (stop.value.code, printed.out) == (2, "")
        start = f"{command}: error [{code}]: "
        assert printed.err.startswith(start), printed.err
        assert "Traceback" not in printed.err
        assert stop.value.__cause__.code == code
        text = printed.err.removeprefix(start)
        assert not [name for name in names if name not in text], text
        return text

    return refused
