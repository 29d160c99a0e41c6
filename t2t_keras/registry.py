"""Names of problems, hyperparameter sets and models, which modules register by decorating them."""

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
from t2t_keras.hyperparameters import HParams, override_hparams


class Registry:
    """The registered things of one kind, by name; `load` adds those of a package of ours."""

    def __init__(self, kind: str, package: str):
        self.kind, self._package = kind, package
        self.entries: dict[str, Any] = {}

    def register(self, name: str, entry: Any) -> Any:
        """Adds an entry and returns it; raises `UserError` if the name is taken."""
        if name in self.entries:
            raise UserError(
                f"The {self.kind} '{name}' is registered twice: in "
                f"{self.entries[name].__module__} and in {entry.__module__}. Rename one of them."
            )
        self.entries[name] = entry
        return entry

    def load(self) -> dict[str, Any]:
        """Returns all entries by name, the package's own included."""
        package = importlib.import_module(self._package)
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"{self._package}.{module.name}")
        return self.entries

    def get(self, name: str) -> Any:
        """Returns the entry called `name`; raises `UserError` if there is none."""
        if name not in self.load():
            raise UserError(
                f"There is no {self.kind} '{name}'.{nearest(name, self.entries)} "
                f"--registry_help lists all of them."
            )
        return self.entries[name]


PROBLEMS = Registry("problem", "t2t_keras.problems")
HPARAMS_SETS = Registry("hyperparameter set", "t2t_keras.hparams")
MODELS = Registry("model", "t2t_keras.models")


def _snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def register_problem(problem_class: type) -> type:
    """Registers a `Problem` class, TranslateEndeToy as `translate_ende_toy`.

    A class that is no dataclass becomes a frozen one.
    """
    if "__dataclass_fields__" not in vars(problem_class):
        problem_class = dataclasses.dataclass(frozen=True)(problem_class)
    return PROBLEMS.register(_snake_case(problem_class.__name__), problem_class)


def register_hparams(hparams_set: Callable) -> Callable:
    """Registers a function without arguments that returns `HParams`, under the function's name."""
    return HPARAMS_SETS.register(hparams_set.__name__, hparams_set)


def register_model(model_class: type) -> type:
    """Registers a model class, which has `from_hparams` as `Transformer`, in snake case."""
    return MODELS.register(_snake_case(model_class.__name__), model_class)


def problem(name: str, config: str | Mapping[str, Any] = ""):
    """Returns the problem called `name`; a name that ends in `_rev` has its languages swapped.

    Args:
      name: a registered name, with or without `_rev`.
      config: "name=value,..." or a mapping, as `--problem_config` takes it.

    Raises:
      UserError: no such problem, one without a reverse, or a setting that it does not have.
    """
    reverse = name.endswith("_rev") and name not in PROBLEMS.load()
    problem_class = PROBLEMS.get(name.removesuffix("_rev") if reverse else name)
    configured = settings.override(problem_class(), config, what=f"setting of problem {name}")
    return dataclasses.replace(configured, name=name, reverse=reverse)


def hparams(name: str, overrides: str | Mapping[str, Any] = "", **changes) -> HParams:
    """Returns the hyperparameter set called `name`, with some values changed.

    Raises:
      UserError: no such set, no such hyperparameter, a wrong type or a value out of range.
    """
    chosen = override_hparams(override_hparams(HPARAMS_SETS.get(name)(), overrides), changes)
    return dataclasses.replace(chosen, set_name=name)


def changed_hparams(hparams: HParams, hparams_set: str = "transformer_base") -> dict[str, Any]:
    """Returns the values that differ from a set's, or from base if it is not registered."""
    # A user's own set need not be there: its directory may not have been imported.
    known = hparams_set in HPARAMS_SETS.load()
    reference = (HPARAMS_SETS.get(hparams_set)() if known else HParams()).config()
    return {name: value for name, value in hparams.config().items() if value != reference.get(name)}


def model(name: str) -> type:
    """Returns the model class called `name`."""
    return MODELS.get(name)


def registry_help() -> str:
    """Returns what `--registry_help` prints: all names, each with the summary of its docstring."""
    lines = []
    for registry, title in (
        (PROBLEMS, "Problems (translation also as <name>_rev, with the languages swapped)"),
        (HPARAMS_SETS, "Hyperparameter sets"),
        (MODELS, "Models"),
    ):
        lines.append(f"{title}:")
        for name, entry in sorted(registry.load().items()):
            summary = (entry.__doc__ or "").strip().partition("\n")[0]
            lines.append(f"  {name:<34} {summary}".rstrip())
    return "\n".join(lines)


# The directories that were imported, for processes to be started.
user_directories: list[str] = []


def import_user_directory(path: str) -> None:
    """Imports a user's own Python files, so that what they register can be named.

    A directory has an `__init__.py` that imports the rest, or single `*.py` files. One without, or
    an error while importing one, raises `UserError`.
    """
    directory = Path(path).expanduser().resolve()
    package = directory / "__init__.py"
    files = [package] if package.exists() else sorted(directory.glob("*.py"))
    if not files:
        raise UserError(f"--t2t_usr_dir={path}: expected a directory with Python files.")
    for file in files:
        _import_file(directory.name if file == package else file.stem, file)
    if str(directory) not in user_directories:
        user_directories.append(str(directory))


def _import_file(name: str, file: Path) -> None:
    if name in sys.modules:
        if getattr(sys.modules[name], "__file__", None) == str(file):
            return
        raise UserError(f"{file}: a module called '{name}' exists already. Rename the file.")
    spec = importlib.util.spec_from_file_location(name, file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        if isinstance(error, UserError):
            raise
        raise UserError(f"{file} cannot be imported: {type(error).__name__}: {error}") from error
