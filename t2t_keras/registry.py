"""Registries of problems, models, layers and other components, looked up by name.

| decorator | registers |
|---|---|
| `register_problem` | a `Problem` |
| `register_hparams` | a function without arguments that returns `HParams`: a set |
| `register_model` | a model class with `from_hparams`, as `Transformer` |
| `register_activation` | a function of a tensor |
| `register_feed_forward` | a layer, made as `layer(config, d_model, **kwargs)` |
| `register_position_encoding` | a layer, made as `layer(config, **kwargs)` |
| `register_optimizer` | a Keras optimizer, made as `optimizer(hparams, schedule)` |
| `register_schedule` | a Keras `LearningRateSchedule`, made as `schedule(hparams)` |
| `register_loss` | a function of logits, targets and hparams: a loss for each token |
| `register_filter` | a function of a source and a target: whether to leave the pair out |
| `register_augmentation` | a function of source, target and a `random.Random`: the changed pair |
| `register_pair_transform` | a `PairTransform`, made without arguments |
| `register_line_stage` | a function of decoding settings and problem: a `LineStage` or None |
| `register_export_format` | an `ExportFormat`, made without arguments |
| `register_metric` | a function of hypotheses, references and sources: a number |

A function is registered under its name, a class under its name in snake case. Layers are made from
the model's `ModelConfig`, or from a user's own subclass of `HParams`.
"""

import dataclasses
import functools
import importlib.util
import inspect
import pkgutil
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from pathlib import Path
from typing import Any, TypeVar

from t2t_keras.environment import expand_path
from t2t_keras.errors import UserError, suggest

Entry = TypeVar("Entry", bound=Callable[..., Any])
ProblemClass = TypeVar("ProblemClass", bound=type)


class Registry(Mapping[str, Any]):
    """The registered components of one kind, by name.

    Packages add entries through the entry-point group named after the kind, such as
    `t2t_keras.line_stages`; an entry is imported on first use.

    Args:
      kind: the kind of component, in the singular.
      core_module: module, or package of modules, that registers the core's components; "" = none.
      title: heading in --registry_help; "" = the plural of the kind.
    """

    def __init__(self, kind: str, core_module: str = "", title: str = ""):
        self.kind, self._core_module = kind, core_module
        plural = f"{kind}es" if kind.endswith("s") else f"{kind}s"
        self.title = title or plural.capitalize()
        self.group = f"t2t_keras.{re.sub('[ -]', '_', plural)}"
        self.entries: dict[str, Any] = {}

    def add(self, entry: Entry, name: str = "") -> Entry:
        """Decorator: registers a function under its name, a class under its name in snake case.

        In a notebook, running a cell again replaces what it has registered.

        Raises:
          UserError: the name is taken.
        """
        name = name or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", entry.__name__).lower()
        existing = self.entries.get(name)
        if existing and not existing.__module__ == entry.__module__ == "__main__":
            raise UserError(
                f"The {self.kind} '{name}' is registered twice: in {existing.__module__} and in "
                f"{entry.__module__}. Rename one of them.",
                code="name_taken",
            )
        self.entries[name] = entry
        return entry

    def __iter__(self) -> Iterator[str]:
        return iter(self._known())

    def __len__(self) -> int:
        return len(self._known())

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._known()

    def __getitem__(self, name: str) -> Any:
        """Returns the entry called `name`; raises `UserError` if there is none."""
        if name in self._own_entries():
            return self.entries[name]
        known = self._known()
        if name not in known:
            raise UserError(
                f"There is no {self.kind} '{name}'. If it is your own, give the --t2t_usr_dir that "
                f"registers it, or install the package that provides it."
                f"{suggest(name, known)} --registry_help lists all of them.",
                code="unknown_name",
            )
        entry = known[name]
        if isinstance(entry, EntryPoint):
            try:
                entry = self.entries.setdefault(name, entry.load())  # Unless a decorator added it.
            except (AttributeError, ImportError) as error:
                package = f" of the package {entry.dist.name}" if entry.dist else ""
                raise UserError(
                    f"'{name}'{package} cannot be imported: {error}. Install the package again, "
                    f"or remove it.",
                    code="import_failed",
                ) from error
        return entry

    def _own_entries(self) -> dict[str, Any]:
        """Returns the entries that the core and modules of users have registered."""
        if self._core_module:
            core_module = importlib.import_module(self._core_module)
            for module in pkgutil.iter_modules(getattr(core_module, "__path__", ())):
                importlib.import_module(f"{self._core_module}.{module.name}")
        return self.entries

    def _known(self) -> dict[str, Any]:
        """Returns all entries by name; those of packages are entry points until their first use."""
        self._own_entries()
        offers: dict[str, EntryPoint] = {}
        for entry_point in _installed_entry_points(self.group, tuple(sys.path)):
            existing = offers.setdefault(entry_point.name, entry_point)
            if existing.value != entry_point.value:
                raise UserError(
                    f"The {self.kind} '{existing.name}' is registered twice: by {existing.value} "
                    f"and by {entry_point.value}. Remove one of the packages.",
                    code="name_taken",
                )
        return self.entries | {name: offers[name] for name in sorted(offers.keys() - self.entries)}


@functools.cache
def _installed_entry_points(group: str, path: tuple[str, ...]) -> EntryPoints:
    """Returns a group's entry points on `path` (sys.path); cached, as the search is slow."""
    return entry_points(group=group)


PROBLEMS = Registry(
    "problem",
    "t2t_keras.problems",
    title="Problems (translation also as <name>_rev, with the languages swapped)",
)
HPARAMS_SETS = Registry("hyperparameter set", "t2t_keras.hparams")
MODELS = Registry("model", "t2t_keras.models")
ACTIVATIONS = Registry("activation", "t2t_keras.layers")
FEED_FORWARDS = Registry("feed-forward layer", "t2t_keras.layers")
POSITION_ENCODINGS = Registry("position encoding", "t2t_keras.layers")
OPTIMIZERS = Registry("optimizer", "t2t_keras.training.optimizer")
SCHEDULES = Registry("learning rate schedule", "t2t_keras.training.optimizer")
LOSSES = Registry("loss", "t2t_keras.training.optimizer")
FILTERS = Registry(
    "filter", "t2t_keras.data.filters", title="Filters of training pairs, beyond the built-in ones"
)
AUGMENTATIONS = Registry(
    "augmentation", "t2t_keras.data.augmentation", title="Augmentations of training text"
)
PAIR_TRANSFORMS = Registry("pair transform", title="Transforms of training pairs")
LINE_STAGES = Registry("line stage", title="Stages that change a line before and after the model")
ENGINES = Registry("engine", "t2t_keras.decoding.stored_model", title="Engines that run a model")
EXPORT_FORMATS = Registry("export format", title="Export formats, in addition to saved_model")
LINE_STAGE_FLAGS = Registry("line stage flag", title="Flags of t2t-decoder that add a stage")
METRICS = Registry("metric", "t2t_keras.metrics")

register_hparams = HPARAMS_SETS.add
register_model = MODELS.add
register_activation = ACTIVATIONS.add
register_feed_forward = FEED_FORWARDS.add
register_position_encoding = POSITION_ENCODINGS.add
register_optimizer = OPTIMIZERS.add
register_schedule = SCHEDULES.add
register_loss = LOSSES.add
register_filter = FILTERS.add
register_augmentation = AUGMENTATIONS.add
register_pair_transform = PAIR_TRANSFORMS.add
register_line_stage = LINE_STAGES.add
register_export_format = EXPORT_FORMATS.add
register_metric = METRICS.add


def register_problem(problem_class: ProblemClass) -> ProblemClass:
    """Registers a `Problem` class; TranslateEndeToy becomes `translate_ende_toy`.

    A class that is not a dataclass becomes a frozen one.

    Raises:
      UserError: the class sets an inherited field without a type, which dataclasses ignore.
    """
    fields = dataclasses.fields(problem_class) if dataclasses.is_dataclass(problem_class) else ()
    untyped = vars(problem_class).keys() - inspect.get_annotations(problem_class)
    if ignored := untyped.intersection(field.name for field in fields):
        names = ", ".join(sorted(ignored))
        raise UserError(
            f"{problem_class.__name__}: give {names} a type, as in `name: str = ...`.",
            code="missing_type",
        )
    if "__dataclass_fields__" not in vars(problem_class):
        # A dataclass without a docstring would get its signature as docstring.
        problem_class.__doc__ = problem_class.__doc__ or " "
        dataclasses.dataclass(frozen=True)(problem_class)
    return PROBLEMS.add(problem_class)


def summary(entry: Any) -> str:
    """Returns the first line of an entry's docstring."""
    return (entry.__doc__ or "").strip().partition("\n")[0]


def registry_help() -> str:
    """Returns what `--registry_help` prints: all names, each with the summary of its docstring."""
    lines = []
    for registry in globals().values():
        if isinstance(registry, Registry):
            lines.append(f"{registry.title}:")
            for name, entry in sorted(registry.items()):
                lines.append(f"  {name:<34} {summary(entry)}".rstrip())
    return "\n".join(lines)


# The imported directories; worker processes import them, too.
user_directories: list[str] = []


def import_user_directory(path: str) -> None:
    """Imports a user's own Python files, which register components.

    Args:
      path: a directory with an `__init__.py` that imports the rest, or with `*.py` files alone.

    Raises:
      UserError: there are no such files, or one cannot be imported.
    """
    directory = Path(expand_path(path)).resolve()
    package = directory / "__init__.py"
    files = [package] if package.exists() else sorted(directory.glob("*.py"))
    if not files:
        raise UserError(
            f"--t2t_usr_dir={path}: expected a directory with Python files.", code="bad_value"
        )
    for file in files:
        _import_file(directory.name if file == package else file.stem, file)
    if str(directory) not in user_directories:
        user_directories.append(str(directory))


def _import_file(name: str, file: Path) -> None:
    if name in sys.modules:
        if getattr(sys.modules[name], "__file__", None) == str(file):
            return
        raise UserError(
            f"{file}: a module called '{name}' exists already. Rename the file.", code="name_taken"
        )
    spec = importlib.util.spec_from_file_location(name, file)
    # Python has a loader for every .py file.
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        if isinstance(error, UserError):
            raise
        raise UserError(
            f"{file} cannot be imported: {type(error).__name__}: {error}", code="import_failed"
        ) from error
