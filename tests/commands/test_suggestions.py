"""Every command that a message suggests runs as printed."""

import ast
import re
import shlex
import shutil
from types import SimpleNamespace

import pytest
from commands import call, module_of, modules_of_commands

from t2t_keras import experiment, registry
from t2t_keras.bin.flags import all_flags
from t2t_keras.errors import UserError
from t2t_keras.interop.engines.ctranslate2_export import RECORD_FILE
from t2t_keras.serving import export
from t2t_keras.serving.load import load_export

TINY = "train_size=60,dev_size=5,train_length=6,dev_length=6"
PROBLEM = f"--problem=algorithmic_identity_binary40 --problem_config={TINY}"
DECODER = "t2t-decoder --output_dir='a run' --decode_from_file=in.txt --decode_to_file=out.txt"
FAST = "--decode_hparams=beam_size=2,extra_length=2"


def suggested(text):
    """The commands in a text."""
    return re.findall(r"^  (t2t-\S.*)$", text, re.M)


@pytest.fixture
def trained(monkeypatch):
    """The runs that t2t-trainer was asked to train; it trains none."""
    requests = []

    def train_run(config, output_dir, *arguments):
        requests.append((config, str(output_dir)))
        return config, SimpleNamespace(signal=0)

    monkeypatch.setattr(experiment, "train_run", train_run)
    monkeypatch.setattr(experiment, "_seconds_per_step", lambda *arguments: 1.0)
    return requests


@pytest.fixture
def folder(tmp_path, random_run, monkeypatch):
    """The working directory, with names that a shell would split: "a run" on "my data"."""
    shutil.copytree(random_run, tmp_path / "a run")
    (tmp_path / "in.txt").write_text("A man.\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def follow(capsys, refused):
    """follow(code, command): runs the commands that a refused command suggests; returns them."""

    def follow(code, command, before=lambda: None):
        commands = suggested(refused(code, *shlex.split(command)))
        before()
        for words in commands:
            call(words)
        return commands

    return follow


@pytest.mark.parametrize(
    ("flags", "programs"),
    [
        (f"{PROBLEM} --data_dir='my data'", ["t2t-datagen", "t2t-trainer"]),
        (f"{PROBLEM} --output_dir='new run' --hparams=dropout=0.3", ["t2t-datagen", "t2t-trainer"]),
    ],
)
def test_a_new_run_of_which_flags_are_missing(folder, trained, follow, flags, programs):
    commands = follow("missing_flags", f"t2t-trainer {flags}")
    assert [shlex.split(command)[0] for command in commands] == programs
    [(config, output_dir)] = trained
    assert config.problem.config()["train_size"] == 60
    assert output_dir == ("new run" if "new" in flags else "runs/algorithmic_identity_binary40")
    assert config.hparams.dropout == (0.3 if "0.3" in flags else config.hparams.dropout)
    # The data exists now: only the training is suggested, for another run.
    assert len(follow("missing_flags", f"t2t-trainer {flags} --output_dir=other")) == 1
    assert trained[1][1] == "other"


def test_a_new_run_without_any_flag(refused, folder, monkeypatch, own_registry):
    monkeypatch.setattr(registry, "import_user_directory", lambda path: None)
    [*_, train] = suggested(refused("missing_flags", "t2t-trainer", "--t2t_usr_dir=my own"))
    assert shlex.split(train)[-1] == "--t2t_usr_dir=my own"
    recipe = "t2t-recipe", "student", "--t2t_usr_dir=my own"
    refused("conflicting_settings --t2t_usr_dir t2t_usr_dir:", *recipe)
    message = refused("missing_flags", "t2t-trainer")
    for flag in ("output_dir", "problem", "hparams_set", "data_dir"):
        assert f"--{flag}" in message.partition("--help")[0]
    data, train = map(shlex.split, suggested(message))
    folders = ["--problem=translate_ende_toy", "--data_dir=data"]
    assert data == ["t2t-datagen", *folders]
    assert train[:3] == ["t2t-trainer", *folders]


def test_data_that_is_missing_or_incomplete(folder, trained, refused, follow):
    command = f"t2t-trainer {PROBLEM} --data_dir='my data' --hparams_set=auto --output_dir=new"
    [again] = follow("no_data", command)
    [config] = re.findall("--problem_config=(\\S+)", again)
    assert set(config.split(",")) == set(TINY.split(","))
    (folder / "my data" / "algorithmic_identity_binary40" / "manifest.json").unlink()
    assert follow("incomplete_data", command) == [again]
    call(command)


def test_text_has_a_folder_of_its_own(folder, trained, random_run, follow):
    shutil.rmtree(folder / "my data", ignore_errors=True)
    text = folder / "text"
    text.mkdir()
    for path in random_run.parent.glob("*.??"):
        shutil.copy(path, text)
    config = "source_language=en,target_language=de,vocab_size=300"
    follow(
        "no_data",
        f"t2t-trainer --problem=parallel_text --problem_config={config} --data_dir='my data' "
        f"--hparams_set=transformer_tiny --output_dir=new",
    )
    assert (folder / "my data" / "parallel_text" / "manifest.json").exists()


def test_the_last_lines_of_datagen(folder, trained, capsys):
    for output_dir in (
        "runs/algorithmic_identity_binary40",
        "runs/algorithmic_identity_binary40-2",
    ):
        call(f"t2t-datagen {PROBLEM} --data_dir='my data' --num_workers=1")
        [command] = suggested(capsys.readouterr().out)
        call(command)
        assert trained[-1][1] == output_dir
        (folder / output_dir).mkdir(parents=True)


def test_a_setting_that_is_typed_as_a_flag(folder, refused, follow):
    [command] = follow("unknown_flag", f"{DECODER} --beam-size=1 {FAST}")
    assert command.endswith("--decode_hparams=beam_size=2,extra_length=2,beam_size=1") is False
    assert (folder / "out.txt").exists()
    refused("unknown_flag --learning_rate --hparams", "t2t-trainer", "--learning_rate", "0.1")
    refused("unknown_flag --vocab_size --problem_config", "t2t-datagen", "--vocab_size=9")


def test_a_run_without_an_export(folder, follow):
    pytest.importorskip("ctranslate2", reason="the extra ctranslate2 is not installed")
    command = f"{DECODER} --engine=ctranslate2"
    follow("no_export", command)
    call(command)
    (folder / "a run" / "model.ckpt-30.safetensors").unlink()
    follow(
        "outdated_export", command, before=lambda: shutil.rmtree(folder / "a run" / "ctranslate2")
    )
    assert (folder / "a run" / "ctranslate2" / RECORD_FILE).exists()


def test_a_run_instead_of_an_export(folder, monkeypatch):
    exported = []
    monkeypatch.setattr(
        export, "export", lambda *_, **options: exported.append(options["export_dir"])
    )
    with pytest.raises(UserError) as info:
        load_export("a run")
    [command] = suggested(str(info.value))
    call(command)
    assert list(map(str, exported)) == ["a run/export"]


# Where commands are suggested: what is new there needs a test here.
SUGGESTING = {
    "_check_new_run", "_commands", "_setting_advice", "command_for_ctranslate2", "datagen_command",
    "load_export", "recommendation",
}  # fmt: skip
# SentencePiece, TensorFlow Serving, and --name=value.
OF_OTHER_PROGRAMS = {"pad_id", "eos_id", "unk_id", "bos_id", "model_name", "name"}


def strings_of(tree):
    """The string constants of a module but its docstrings."""
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in docstrings:
            yield from [node.value] if isinstance(node.value, str) else []


@pytest.fixture(scope="module")
def modules(root):
    """The parsed modules of the package, by path."""
    paths = [*root.glob("t2t_keras/**/*.py"), *root.glob("recipes/**/*.py")]
    return {path.relative_to(root): ast.parse(path.read_text()) for path in paths}


def test_commands_are_suggested_by_one_function(modules):
    suggesting = set()
    for path, tree in modules.items():
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef):
                names = {
                    node.func.id
                    for node in ast.walk(function)
                    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
                }
                suggesting |= {function.name} if "command_line" in names else set()
        for text in strings_of(tree):
            # A README's template has commands of its own.
            assert "```" in text or not re.search(r"t2t-[a-z-]+ --", text), (path, text)
    assert suggesting == SUGGESTING


def test_flags_in_messages_exist(modules):
    define_flags = [module_of(command).define_flags for command in modules_of_commands()]
    known = {name for define in define_flags for name in all_flags(define)} | OF_OTHER_PROGRAMS
    known |= {f"no{name}" for name in known}
    for path, tree in modules.items():
        # What has no space is an argument of another program.
        for text in (text for text in strings_of(tree) if " " in text):
            for name in re.findall(r"(?<![\w-])--([a-z][a-z0-9_]*)", text):
                assert name in known, (path, text)


def test_extras_in_messages_exist(modules, root):
    extras = set(re.findall(r'^        "(\w+)": \[', (root / "setup.py").read_text(), re.M))
    for path, tree in modules.items():
        for text in strings_of(tree):
            for name in re.findall(r"t2t-keras\[([\w,]+)\]", text):
                assert extras.issuperset(name.split(",")), (path, text)
