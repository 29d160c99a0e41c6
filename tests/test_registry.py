import dataclasses
import subprocess
import sys
import textwrap

import pytest

from t2t_keras import registry
from t2t_keras.errors import UserError
from t2t_keras.hyperparameters import HParams
from t2t_keras.settings import setting


@pytest.fixture(autouse=True)
def registry_as_before(monkeypatch):
    """Whatever a test registers or imports is forgotten after it."""
    for names in (registry._problems, registry._hparams_sets, registry._models):
        monkeypatch.setattr(names, "_entries", dict(names.all()))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.fixture
def tea_problem():
    @registry.register_problem
    @dataclasses.dataclass(frozen=True)
    class TranslateTeaToCoffee2Go:
        """Tea to coffee."""

        sugar: int = setting(1, "lumps", minimum=0)
        name: str = ""
        reverse: bool = False

    return TranslateTeaToCoffee2Go


@pytest.fixture
def user_directory(tmp_path):
    """A function that writes Python files into a directory of a user's own."""
    directory = tmp_path / "my_problems"
    directory.mkdir()

    def write(**files):
        for name, source in files.items():
            (directory / f"{name}.py").write_text(textwrap.dedent(source), encoding="utf-8")
        return directory

    return write


SET_SOURCE = """
    from t2t_keras.hyperparameters import HParams
    from t2t_keras.registry import register_hparams

    @register_hparams
    def {name}():
        return HParams(d_ff={d_ff})
"""


class TestProblem:
    def test_is_found_by_its_class_name_in_snake_case(self, tea_problem):
        problem = registry.problem("translate_tea_to_coffee2_go")
        assert type(problem) is tea_problem
        assert (problem.name, problem.reverse) == ("translate_tea_to_coffee2_go", False)

    def test_the_suffix_rev_swaps_the_languages(self, tea_problem):
        problem = registry.problem("translate_tea_to_coffee2_go_rev")
        assert type(problem) is tea_problem
        assert (problem.name, problem.reverse) == ("translate_tea_to_coffee2_go_rev", True)

    def test_a_registered_name_that_ends_in_rev_is_that_name(self):
        @registry.register_problem
        @dataclasses.dataclass(frozen=True)
        class PlayRev:
            name: str = ""
            reverse: bool = False

        assert registry.problem("play_rev").reverse is False
        assert registry.problem("play_rev_rev").reverse is True

    @pytest.mark.parametrize("config", ["sugar=3", {"sugar": 3}, {"sugar": "3"}])
    def test_takes_a_config(self, tea_problem, config):
        assert registry.problem("translate_tea_to_coffee2_go", config).sugar == 3

    def test_a_wrong_config_names_the_problem(self, tea_problem):
        with pytest.raises(
            UserError,
            match=r"no setting of problem translate_tea_to_coffee2_go 'suger'\. "
            "Did you mean 'sugar'",
        ):
            registry.problem("translate_tea_to_coffee2_go", "suger=3")
        with pytest.raises(UserError, match="'sugar' is at least 0; -1 came"):
            registry.problem("translate_tea_to_coffee2_go", "sugar=-1")

    @pytest.mark.parametrize(
        "name", ["translate_tea_to_cofee2_go", "translate_tea_to_cofee2_go_rev"]
    )
    def test_an_unknown_name_gets_the_nearest(self, tea_problem, name):
        with pytest.raises(
            UserError,
            match=r"no problem '.*cofee.*'\. Did you mean 'translate_tea_to_coffee2_go'"
            r".*--registry_help",
        ):
            registry.problem(name)


class TestHparams:
    def test_the_paper_s_sets_differ_as_table_3_says(self):
        base, big = registry.hparams("transformer_base"), registry.hparams("transformer_big")
        assert base == HParams()
        assert (big.num_layers, big.d_model, big.d_ff, big.num_heads) == (6, 1024, 4096, 16)
        assert big.head_widths() == (64, 64)
        assert (big.dropout, big.train_steps) == (0.3, 300_000)
        assert (big.label_smoothing, big.batch_tokens) == (base.label_smoothing, base.batch_tokens)

    def test_every_set_gives_values_that_fit_together(self):
        sets = registry._hparams_sets.all()
        assert {"transformer_base", "transformer_big", "transformer_small", "transformer_tiny"} <= (
            set(sets)
        )
        for name in sets:
            assert isinstance(registry.hparams(name), HParams)

    def test_takes_changes_as_text_and_as_keywords(self):
        changed = registry.hparams("transformer_tiny", "dropout=0.2,train_steps=1e3", d_ff=64)
        assert (changed.dropout, changed.train_steps, changed.d_ff) == (0.2, 1000, 64)
        assert changed.d_model == registry.hparams("transformer_tiny").d_model

    def test_a_wrong_change_is_refused(self):
        with pytest.raises(UserError, match="'hidden_size' is called 'd_model' here"):
            registry.hparams("transformer_tiny", "hidden_size=64")
        with pytest.raises(UserError, match="There is no hyperparameter 'drop'"):
            registry.hparams("transformer_tiny", drop=0.1)

    def test_an_unknown_name_gets_the_nearest(self):
        with pytest.raises(
            UserError,
            match=r"no hyperparameter set 'transformer_bsae'\. Did you mean 'transformer_base'",
        ):
            registry.hparams("transformer_bsae")

    def test_a_name_with_nothing_near_gets_no_suggestion(self):
        with pytest.raises(
            UserError, match=r"^There is no hyperparameter set 'zzzzzz'\. --registry_help"
        ):
            registry.hparams("zzzzzz")


class TestRegistration:
    def test_twice_is_an_error_that_names_both_modules(self, tea_problem):
        again = type("TranslateTeaToCoffee2Go", (), {"__module__": "kitchen"})
        with pytest.raises(
            UserError,
            match=f"problem 'translate_tea_to_coffee2_go' is registered twice: "
            f"in {tea_problem.__module__} and in kitchen",
        ):
            registry.register_problem(again)
        assert registry._problems.get("translate_tea_to_coffee2_go") is tea_problem

    def test_twice_is_an_error_for_sets_and_models_too(self):
        def transformer_base():
            return HParams()

        with pytest.raises(UserError, match="set 'transformer_base' is registered twice"):
            registry.register_hparams(transformer_base)
        registry.register_model(type("TeaPot", (), {}))
        with pytest.raises(UserError, match="model 'tea_pot' is registered twice"):
            registry.register_model(type("TeaPot", (), {}))

    def test_gives_back_what_it_registers(self):
        tea_pot = type("TeaPot", (), {})
        assert registry.register_model(tea_pot) is tea_pot
        assert registry.model("tea_pot") is tea_pot


def test_registry_help_lists_every_name_on_a_line_with_its_first_line(tea_problem):
    @registry.register_hparams
    def set_without_docstring():
        return HParams()

    lines = registry.registry_help().splitlines()
    assert any(
        line.split(maxsplit=1) == ["translate_tea_to_coffee2_go", "Tea to coffee."]
        for line in lines
    )
    assert "  set_without_docstring" in lines
    named = [line.split()[0] for line in lines if line.startswith("  ")]
    for names in (registry._problems, registry._hparams_sets, registry._models):
        assert set(names.all()) <= set(named)
    assert len(named) == len(set(named))


class TestUserDirectory:
    def test_imports_single_files(self, user_directory):
        directory = user_directory(
            first_set=SET_SOURCE.format(name="first", d_ff=3),
            second_set=SET_SOURCE.format(name="second", d_ff=5),
        )
        registry.import_user_directory(str(directory))
        assert registry.hparams("first").d_ff == 3
        assert registry.hparams("second").d_ff == 5

    def test_imports_a_package_with_its_own_imports(self, user_directory):
        directory = user_directory(
            __init__="from . import inner\n",
            inner=SET_SOURCE.format(name="inner", d_ff=7),
            not_imported="raise RuntimeError\n",
        )
        registry.import_user_directory(str(directory))
        assert registry.hparams("inner").d_ff == 7

    def test_twice_imports_once(self, user_directory):
        directory = user_directory(once=SET_SOURCE.format(name="once", d_ff=3))
        registry.import_user_directory(str(directory))
        registry.import_user_directory(f"{directory}/")
        assert registry.hparams("once").d_ff == 3

    def test_the_home_directory_may_be_a_tilde(self, user_directory, monkeypatch):
        directory = user_directory(at_home=SET_SOURCE.format(name="at_home", d_ff=3))
        monkeypatch.setenv("HOME", str(directory.parent))
        registry.import_user_directory("~/my_problems")
        assert registry.hparams("at_home").d_ff == 3

    def test_a_name_of_the_package_cannot_be_taken(self, user_directory):
        directory = user_directory(takes=SET_SOURCE.format(name="transformer_base", d_ff=3))
        with pytest.raises(
            UserError,
            match=r"'transformer_base' is registered twice: in t2t_keras\.hparams\.transformer "
            "and in takes",
        ):
            registry.import_user_directory(str(directory))

    @pytest.mark.parametrize(
        ("source", "said"),
        [
            ("import no_such_library", "ModuleNotFoundError: No module named 'no_such_library'"),
            ("1 / 0", "ZeroDivisionError: division by zero"),
            ("def broken(:", "SyntaxError"),
        ],
    )
    def test_an_error_inside_names_the_file_and_the_error(self, user_directory, source, said):
        directory = user_directory(faulty=source)
        with pytest.raises(UserError) as raised:
            registry.import_user_directory(str(directory))
        assert str(directory / "faulty.py") in str(raised.value)
        assert said in str(raised.value)
        assert "faulty" not in sys.modules

    def test_no_directory_or_an_empty_one_is_an_error(self, user_directory, tmp_path):
        for path in (tmp_path / "nowhere", user_directory()):
            with pytest.raises(UserError, match=f"{path}: no directory with Python files"):
                registry.import_user_directory(str(path))

    def test_a_file_is_no_directory(self, user_directory):
        file = user_directory(single="pass") / "single.py"
        with pytest.raises(UserError, match="no directory with Python files"):
            registry.import_user_directory(str(file))

    def test_a_file_named_as_a_module_that_exists_is_an_error(self, user_directory):
        directory = user_directory(json="pass")
        with pytest.raises(UserError, match=r"json\.py: a module called 'json' exists already"):
            registry.import_user_directory(str(directory))


def run_python(code, *arguments):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()


def test_a_user_s_name_that_comes_before_the_package_s_own_is_registered_twice(user_directory):
    # As in the commands: the user's directory is imported before any name is looked up.
    directory = user_directory(takes=SET_SOURCE.format(name="transformer_base", d_ff=3))
    printed = run_python(
        """
        import sys
        from t2t_keras import errors, registry
        registry.import_user_directory(sys.argv[1])
        try:
            registry.hparams("transformer_base")
        except errors.UserError as error:
            print(error)
        """,
        directory,
    )
    assert "registered twice: in takes and in t2t_keras.hparams.transformer" in printed


def test_importing_the_package_does_not_import_tensorflow():
    printed = run_python(
        """
        import sys
        from t2t_keras import registry
        registry.hparams("transformer_base")
        print([name for name in ("tensorflow", "keras") if name in sys.modules])
        """
    )
    assert printed == "[]"
