import re
import subprocess
import sys

import pytest
from refusals import refused

from t2t_keras import hyperparameters, registry
from t2t_keras.data.problem import Problem, make_problem
from t2t_keras.hyperparameters import HParams
from t2t_keras.registry import Registry
from t2t_keras.settings import setting


@pytest.fixture(autouse=True)
def modules_as_before(own_registry):
    """Whatever a test registers or imports is forgotten after it."""
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.fixture
def tea_problem():
    @registry.register_problem
    class TranslateTeaToCoffee2Go:
        """Tea to coffee."""

        sugar: int = setting(1, "lumps", minimum=0)
        name: str = ""
        reverse: bool = False

    return TranslateTeaToCoffee2Go


@pytest.fixture
def user_directory(tmp_path):
    """user_directory(**sources): a directory of a user's own with Python files."""
    directory = tmp_path / "my_problems"
    directory.mkdir()

    def write(**sources):
        for name, source in sources.items():
            (directory / f"{name}.py").write_text(source, encoding="utf-8")
        return directory

    return write


def set_source(name, d_ff):
    return f"""
from t2t_keras import hyperparameters, registry

@registry.register_hparams
def {name}():
    return hyperparameters.HParams(d_ff={d_ff})
"""


def test_a_problem_is_found_by_its_class_name_in_snake_case(tea_problem):
    registry.register_problem(type("PlayRev", (tea_problem,), {}))
    for name, reverse in (
        ("translate_tea_to_coffee2_go", False),
        ("translate_tea_to_coffee2_go_rev", True),
        ("play_rev", False),
        ("play_rev_rev", True),
    ):
        problem = make_problem(name, "sugar=3")
        assert isinstance(problem, tea_problem)
        assert (problem.name, problem.reverse, problem.sugar) == (name, reverse, 3)
        with refused("unknown_name", name, "'suger'", "'sugar'"):
            make_problem(name, {"suger": 3})


def test_a_cell_of_a_notebook_can_be_run_again(monkeypatch):
    first, second = (lambda x: x for _ in range(2))
    for source in (first, second):
        source.__name__, source.__module__ = "doubled", "__main__"
        registry.register_activation(source)
    assert registry.ACTIVATIONS["doubled"] is second
    monkeypatch.setattr(second, "__module__", "mine")
    with refused("name_taken", "'doubled'", "mine", "__main__"):
        registry.register_activation(first)
    monkeypatch.setattr(first, "__module__", "mine")
    with refused("name_taken", "'doubled'", "mine"):
        registry.register_activation(first)


def test_a_field_without_a_type_is_refused(tea_problem):
    with refused("missing_type", "MilkTea", "sugar"):
        registry.register_problem(type("MilkTea", (tea_problem,), {"sugar": 2}))
    # What is no field needs none.
    registry.register_problem(type("Own", (Problem,), {"splits": ("train", "dev")}))


def problem_with_metric(name):
    registry.METRICS.add(abs, "own")
    return make_problem("translate_ende_toy", {"metrics": ["own", name]})


@pytest.mark.parametrize(
    ("look_up", "name", "hint"),
    [
        (make_problem, "translate_tea_to_cofee2_go", "'translate_tea_to_coffee2_go'"),
        (make_problem, "translate_tea_to_cofee2_go_rev", "'translate_tea_to_coffee2_go'"),
        (hyperparameters.hparams, "transformer_bsae", "'transformer_base'"),
        (registry.MODELS.__getitem__, "transfromer", "'transformer'"),
        (problem_with_metric, "comet", ""),
        (hyperparameters.hparams, "zzzzzz", ""),
    ],
)
def test_an_unknown_name_gets_the_nearest(tea_problem, look_up, name, hint):
    named = f"'{name.removesuffix('_rev')}'"
    with refused("unknown_name", named, hint, "--t2t_usr_dir", "--registry_help") as info:
        look_up(name)
    assert (str(info.value).count("'") > 2) == bool(hint)


def test_an_entry_of_a_package_is_imported_when_it_is_asked_for(installed):
    teas = Registry("tea shop")
    source = "def green(): return 'sencha'\ndef black(): return 'assam'"
    installed("tea_shop", "t2t_keras.tea_shops", source, "green", "black")
    assert [*teas] == ["black", "green"]
    assert "green" in teas
    with refused("unknown_name", "'grean'", "'green'"):
        teas["grean"]
    assert "tea_shop" not in sys.modules
    assert teas["green"]() == "sencha"
    assert "tea_shop" in sys.modules
    assert {name: entry() for name, entry in teas.items()} == {
        "green": "sencha",
        "black": "assam",
    }


def test_two_packages_with_one_name_are_refused(installed):
    for package in ("tea_shop", "tea_house"):
        installed(package, "t2t_keras.teas", "def green(): pass", "green")
    teas = Registry("tea")
    for look_up in (list, lambda teas: teas["green"]):
        with refused("name_taken", "'green'", "tea_shop:green", "tea_house:green"):
            look_up(teas)


@pytest.mark.parametrize(
    ("source", "name"), [("import no_such", "no_such"), ("def black(): pass", "green")]
)
def test_an_entry_of_a_package_that_cannot_be_imported(installed, source, name):
    installed("tea_shop", "t2t_keras.teas", source, "green")
    teas = Registry("tea")
    assert [*teas] == ["green"]
    with refused("import_failed", "'green'", "tea_shop", f"'{name}'"):
        teas["green"]


def test_a_set_takes_changes_as_text_and_as_keywords():
    changed = hyperparameters.hparams("transformer_tiny", "dropout=0.2,train_steps=1e3", d_ff=64)
    expected = dict(dropout=0.2, train_steps=1000, d_ff=64)
    assert hyperparameters.changed_hparams(changed, "transformer_tiny") == expected
    # Of a set that is not registered, all that differs from the base model.
    of_base = hyperparameters.changed_hparams(changed, "transformer_base")
    assert hyperparameters.changed_hparams(changed, "of_my_own") == of_base
    assert of_base.items() > expected.items()
    with refused("unknown_name", "'hidden_size'", "'d_model'"):
        hyperparameters.hparams("transformer_tiny", "hidden_size=64")
    with refused("unknown_name", "'drop'"):
        hyperparameters.hparams("transformer_tiny", drop=0.1)


def test_registry_help_lists_every_name_once_with_its_first_line(tea_problem):
    registry.register_hparams(type("without_docstring", (HParams,), {"__doc__": None}))
    registry.register_problem(type("NoDocstring", (tea_problem,), {}))
    lines = registry.registry_help().splitlines()
    listed = [line.split(maxsplit=1) for line in lines if line.startswith("  ")]
    assert ["translate_tea_to_coffee2_go", "Tea to coffee."] in listed
    assert ["without_docstring"] in listed
    assert ["no_docstring"] in listed
    registries = [value for value in vars(registry).values() if isinstance(value, Registry)]
    assert sorted(entry[0] for entry in listed) == sorted(n for r in registries for n in r)
    for kind in re.split(r"^\w.*:$", registry.registry_help(), flags=re.MULTILINE):
        names = re.findall(r"^  (\S+)", kind, re.MULTILINE)
        assert names == sorted(names)


def test_a_user_s_single_files_are_imported_once(user_directory, monkeypatch):
    directory = user_directory(first=set_source("first", 3), second=set_source("second", 5))
    monkeypatch.setenv("HOME", str(directory.parent))
    for path in (f"{directory}/", "~/my_problems"):
        registry.import_user_directory(path)
    assert [hyperparameters.hparams(name).d_ff for name in ("first", "second")] == [3, 5]
    assert registry.user_directories == [str(directory)]


def test_a_user_s_package_imports_its_own_modules(user_directory):
    sources = dict(inner=set_source("inner", 7), not_imported="raise RuntimeError")
    registry.import_user_directory(user_directory(__init__="from . import inner", **sources))
    assert hyperparameters.hparams("inner").d_ff == 7


@pytest.mark.parametrize(
    ("files", "code", "names"),
    [
        (
            {"faulty": "import no_such"},
            "import_failed",
            ["/faulty.py", "ModuleNotFoundError", "'no_such'"],
        ),
        ({"faulty": "def broken(:"}, "import_failed", ["/faulty.py", "SyntaxError"]),
        (
            {"faulty": "from t2t_keras import registry; registry.MODELS['mine']"},
            "unknown_name",
            ["'mine'"],
        ),
        ({"json": "pass"}, "name_taken", ["/json.py", "'json'"]),
        ({}, "bad_value", ["--t2t_usr_dir=", "/my_problems"]),
    ],
)
def test_a_user_s_directory_that_cannot_be_imported(user_directory, files, code, names):
    with refused(code, *names):
        registry.import_user_directory(user_directory(**files))
    assert "faulty" not in sys.modules


def test_before_any_look_up_neither_tensorflow_nor_a_taken_name_is_imported(user_directory):
    # As in the commands: the user's directory is imported before any name is looked up.
    directory = user_directory(takes=set_source("transformer_base", 3))
    program = f"""
import sys
from t2t_keras import hyperparameters, registry
registry.import_user_directory("{directory}")
print([name for name in ("tensorflow", "keras") if name in sys.modules], flush=True)
hyperparameters.hparams("transformer_base")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "[]\n"
    refusal = done.stderr.splitlines()[-1]
    names = ("'transformer_base'", "takes", "t2t_keras.hparams.transformer")
    assert [name for name in names if name in refusal] == [*names]
