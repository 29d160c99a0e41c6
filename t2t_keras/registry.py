"""Names -> problems, hyperparameter sets and models.

A module registers by decorating; a name that is registered twice is an error, a name that does
not exist is answered with the nearest ones. The package's own problems and sets are imported when
the first name is looked up, a user's own by `import_user_directory`.
"""

import dataclasses
import importlib
import importlib.util
import pkgutil
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from t2t_keras import settings
from t2t_keras.errors import UserError, nearest


class _Names:
    """One kind of registered thing."""

    def __init__(self, kind: str, package: str):
        self.kind = kind
        self._package = package
        self._entries: dict[str, Any] = {}
        self._loaded = False

    def register(self, name: str, entry: Any) -> None:
        if name in self._entries:
            first = self._entries[name]
            raise UserError(
                f"The {self.kind} '{name}' is registered twice: in {first.__module__} and in "
                f"{entry.__module__}. Give one of them another name."
            )
        self._entries[name] = entry

    def all(self) -> dict[str, Any]:
        if not self._loaded:
            self._loaded = True
            package = importlib.import_module(self._package)
            for module in pkgutil.iter_modules(package.__path__):
                importlib.import_module(f"{self._package}.{module.name}")
        return self._entries

    def get(self, name: str) -> Any:
        entries = self.all()
        if name not in entries:
            raise UserError(
                f"There is no {self.kind} '{name}'.{nearest(name, entries)} "
                f"--registry_help lists all of them."
            )
        return entries[name]


_problems = _Names("problem", "t2t_keras.problems")
_hparams_sets = _Names("hyperparameter set", "t2t_keras.hparams")
_models = _Names("model", "t2t_keras.models")


def _snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def register_problem(problem_class: type) -> type:
    """Registers a `Problem` class, TranslateEndeToy as `translate_ende_toy`."""
    _problems.register(_snake_case(problem_class.__name__), problem_class)
    return problem_class


def register_hparams(hparams_set: Callable) -> Callable:
    """Registers a function without arguments that returns `HParams`, under the function's name."""
    _hparams_sets.register(hparams_set.__name__, hparams_set)
    return hparams_set


def register_model(model_class: type) -> type:
    """Registers a model class under its name in snake case.

    It needs `from_hparams`, as `Transformer` has it.
    """
    _models.register(_snake_case(model_class.__name__), model_class)
    return model_class


def problem(name: str, config: str | Mapping[str, Any] = ""):
    """Returns the problem called `name`; a name that ends in `_rev` has its languages swapped.

    Args:
      name: a registered name, with or without `_rev`.
      config: "name=value,..." or a mapping, as `--problem_config` takes it.

    Raises:
      UserError: no such problem, none of it with `_rev`, or a setting that it does not have.
    """
    known = _problems.all()
    reverse = name.endswith("_rev") and name not in known
    found = _problems.get(name.removesuffix("_rev") if reverse else name)
    made = settings.override(found(), config, what=f"setting of problem {name}")
    return dataclasses.replace(made, name=name, reverse=reverse)


def hparams(name: str, overrides: str | Mapping[str, Any] = "", **changes):
    """Returns the hyperparameter set called `name`, with some values changed.

    Raises:
      UserError: no such set, no such hyperparameter, a wrong type or a value out of range.
    """
    from t2t_keras.hyperparameters import override_hparams

    return override_hparams(override_hparams(_hparams_sets.get(name)(), overrides), changes)


def model(name: str) -> type:
    """Returns the model class called `name`."""
    return _models.get(name)


def registry_help() -> str:
    """Returns what `--registry_help` prints: all names, a line each with what they are."""
    lines = []
    for names, title in (
        (_problems, "Problems (translation also as <name>_rev, with the languages swapped)"),
        (_hparams_sets, "Hyperparameter sets"),
        (_models, "Models"),
    ):
        lines.append(f"{title}:")
        for name, entry in sorted(names.all().items()):
            summary = (entry.__doc__ or "").strip().partition("\n")[0]
            lines.append(f"  {name:<34} {summary}".rstrip())
    return "\n".join(lines)


# For processes that this one starts.
_user_directories: list[str] = []


def user_directories() -> tuple[str, ...]:
    """Returns the directories that `import_user_directory` has imported."""
    return tuple(_user_directories)


def import_user_directory(path: str) -> None:
    """Imports a user's own Python files, so that what they register can be named.

    Args:
      path: a directory with an `__init__.py` that imports the rest, or with single `*.py` files.

    Raises:
      UserError: no such directory, no Python file in it, or an error while importing one.
    """
    directory = Path(path).expanduser().resolve()
    package = directory / "__init__.py"
    files = [package] if package.exists() else sorted(directory.glob("*.py"))
    if not files:
        raise UserError(f"--t2t_usr_dir={path}: no directory with Python files is there.")
    for file in files:
        name = directory.name if file == package else file.stem
        _import_file(name, file, [str(directory)] if file == package else None)
    if str(directory) not in _user_directories:
        _user_directories.append(str(directory))


def _import_file(name: str, file: Path, search: list[str] | None) -> None:
    present = sys.modules.get(name)
    if present is not None:
        if getattr(present, "__file__", None) == str(file):
            return
        raise UserError(f"{file}: a module called '{name}' exists already; rename the file.")
    spec = importlib.util.spec_from_file_location(name, file, submodule_search_locations=search)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except UserError:
        del sys.modules[name]
        raise
    except Exception as error:
        del sys.modules[name]
        raise UserError(f"{file} cannot be imported: {type(error).__name__}: {error}") from error
