"""~ at the beginning of a path is the home directory, also where no shell replaces it.

URLs, which tensor2tensor's users type for directories, are refused.
"""

from pathlib import Path

import pytest
import yaml

import t2t_keras as t2t
from t2t_keras.data.dataset import open_generated
from t2t_keras.environment import expand_path
from t2t_keras.errors import UserError
from t2t_keras.io.flags import Flags
from t2t_keras.recipes.running import example
from t2t_keras.recipes.student.plan import Plan
from t2t_keras.training.run_config import RunConfig
from t2t_keras.workbench.documents.document import read_document
from t2t_keras.workbench.documents.translating import TranslationMemory

PROBLEM = "algorithmic_identity_binary40"
TEXT = "source_language=en,target_language=de"


@pytest.fixture
def home(tmp_path, monkeypatch):
    """The home directory."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


EVERY_FUNCTION = pytest.mark.parametrize(
    "call",
    [
        lambda path: t2t.train(PROBLEM, "transformer_tiny", path, "runs"),
        lambda path: t2t.train(PROBLEM, "auto", path, "runs"),
        lambda path: t2t.generate_data(t2t.problem("parallel_text", TEXT), "data", path),
        lambda path: t2t.load_model(path),
        lambda path: t2t.average_checkpoints(path, "runs"),
        lambda path: t2t.Translator.from_run(path),
        lambda path: t2t.Translator.from_run(path, engine="ctranslate2"),
        lambda path: t2t.load_export(path),
        lambda path: TranslationMemory.read(f"{path}.tmx", "en", "de"),
        lambda path: read_document(f"{path}.txt"),
        lambda path: t2t.problem("translate_ende_toy", {"vocab_file": path}).load_vocabulary(),
    ],
)


@EVERY_FUNCTION
def test_every_function_of_the_library_expands_it(home, call):
    with pytest.raises(UserError, match=f"{home}/x"):
        call("~/x")
    assert not [path for path in home.iterdir() if not path.name.startswith(".")]


@EVERY_FUNCTION
def test_every_function_of_the_library_refuses_a_url(home, call):
    with pytest.raises(UserError) as error:
        call("gs://bucket/x")
    assert error.value.code == "url_as_path"
    assert not list(home.iterdir())


@pytest.mark.parametrize(
    "flag", ["--one=gs://b/a", "--many=a,s3://b", "--model=gs://a", "--model=en-de=gs://a"]
)
def test_flags_refuse_a_url(flag):
    with pytest.raises(UserError) as error:
        _flags().parse(["t2t-x", flag])
    assert error.value.code == "url_as_path"


@pytest.mark.parametrize("url", [Path("s3://bucket/x"), "file:///x", "hdfs+a.b://x"])
def test_what_is_a_url(url):
    with pytest.raises(UserError) as error:
        expand_path(url)
    assert error.value.code == "url_as_path"


@pytest.mark.parametrize("path", ["a:b/c", "./a:/b", "c:/a", "a//b", "1:/a", ":/a", "a b:/c"])
def test_what_is_no_url_is_a_path(path):
    assert expand_path(path) == path


def test_data_is_written_there(home):
    sizes = {"train_size": 5, "dev_size": 2}
    problem = t2t.problem(PROBLEM, sizes)
    t2t.generate_data(problem, "~/data")
    assert [path.name for path in home.iterdir()] == ["data"]
    (home / "file").touch()
    hparams = t2t.hparams("transformer_tiny")
    RunConfig(problem, hparams).with_data(open_generated(problem, "data")).save(home / "run")
    for call in (
        lambda: t2t.train(problem, hparams, "~/data", "~/file/x"),
        lambda: t2t.train(problem, hparams, "~/data", "new", warm_start_from="~/file/x"),
    ):
        with pytest.raises(UserError, match=f"{home}/file"):
            call()


def test_a_recipe(home):
    for name in ("text.en", "text.de"):
        (home / name).write_text("a\n")
    texts = {"corpora": {"a": "~/text"}, "dev": {"b": "~/text"}, "noisy": {"c": ["~/text", 0.5]}}
    config = yaml.safe_load(example("student")) | texts | {"monolingual": {}}
    plan = Plan(config | {"work_dir": "~/work"}, "/")
    assert plan.work == f"{home}/work"
    assert set(plan.user_files.values()) == {f"{home}/text.en", f"{home}/text.de"}


def _flags():
    flags = Flags()
    flags.path("one", "")
    flags.paths("many", "")
    flags.named_paths("model", "")
    flags.string("text", "")
    return flags


def test_flags(home):
    flags = _flags()
    flags.parse(["t2t-x", "--one=~/a", "--many=~/a,b~,~/c", "--text=~/a", "--model=en-de=~/a=b~"])
    assert flags.one == f"{home}/a"
    assert flags.many == [f"{home}/a", "b~", f"{home}/c"]
    assert flags.model == [f"en-de={home}/a=b~"]
    assert flags.text == "~/a"
