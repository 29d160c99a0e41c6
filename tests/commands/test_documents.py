"""The blocks of README.md and docs/ run, or a mark says why not; then their flags and names exist.

The commands of a block run in a shell in which each t2t command is a stub that records its flags
and its input; then the commands run here, on small runs and texts. Python runs as it stands.
"""

import ast
import importlib
import io
import re
import shutil
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
from commands import module_of
from document_blocks import blocks, outside_blocks, pages, recorded_calls, write_stubs
from random_runs import PAIRS

from t2t_keras import experiment, hyperparameters
from t2t_keras.bin.flags import run_command
from t2t_keras.data.dataset import open_generated
from t2t_keras.data.generate import generate
from t2t_keras.data.problem import Problem, make_problem
from t2t_keras.decoding.config import decode_config
from t2t_keras.training.checkpoints import Checkpoints
from t2t_keras.training.progress import JsonCurves
from t2t_keras.training.run_config import RunConfig

BLOCKS = blocks(Path(__file__).parents[2])
# tests/test_docs.py runs the blocks of these pages.
FRONT = {
    "README.md",
    *(f"docs/{name}.md" for name in ("own_text", "concepts", "paper", "troubleshooting")),
}
# Tests of their own run the Python of these pages.
ELSEWHERE = FRONT | {"docs/python.md", "docs/extending.md", "docs/documents.md"}
OTHER_PROGRAMS = ("pip", "docker", "curl", "snakemake", "make")
SHELL = [block for block in BLOCKS if block.is_shell]
PYTHON = [block for block in BLOCKS if block.language == "python"]


def cases(runnable):
    return pytest.mark.parametrize(
        "block", [pytest.param(one_block, id=str(one_block)) for one_block in runnable]
    )


def save_run(problem, data, folder):
    """A run that translates everything as a full stop, which takes few steps."""
    hparams = "num_layers=1,d_model=16,d_ff=16,num_heads=2,softmax_bias=true"
    generated = open_generated(problem, data)
    record = RunConfig(
        problem=problem,
        model="transformer",
        hparams=hyperparameters.hparams("transformer_tiny", hparams),
        random_seed=1,
        data_dir=str(data),
    ).with_data(generated)
    record.save(folder)
    model = record.make_model()
    *_, full_stop, end = generated.tokenizer.encode(["Ein Hund."])[0]
    bias = np.zeros(300)
    bias[[full_stop, end]] = 100, 200
    model.embedding.bias.assign(bias)
    for step in (20, 1000):
        Checkpoints(folder, {"model": model}, keep=2).save(step)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The working directory: runs, and all texts that documents name."""
    folder = tmp_path_factory.mktemp("documents")
    sides = {language: [pair[n] for pair in PAIRS] for n, language in enumerate(("en", "de"))}
    for language, lines in sides.items():
        for name in ("news", "all", "web", "test", "train", "text/dev", "text/test", "text/news"):
            write(folder, f"{name}.{language}", lines)
        for name in ("text/train", "text/clean"):
            write(folder, f"{name}.{language}", lines * 20)
    for source, target in (("en", "de"), ("de", "en")):
        config = f"source_language={source},target_language={target},vocab_size=300"
        problem = make_problem("parallel_text", config)
        data = folder / f"data.{source}-{target}"
        generate(problem, data, folder / "text")
        save_run(problem, data, folder / f"run.{source}-{target}")
    (folder / "data").symlink_to(folder / "data.en-de")
    named = re.findall(r"\bruns/([\w-]+)", "".join(block.text for block in SHELL + PYTHON))
    for name in set(named):
        direction = "de-en" if name == "de-en" else "en-de"
        shutil.copytree(folder / f"run.{direction}", folder / "runs" / name)
    for name in ("mine", "base", "big"):
        curves = JsonCurves(folder / "runs" / name)
        for step in (100, 200):
            curves.write("train", step, {"loss": 300 / step, "training_seconds": 36.0 * step})
            curves.write("eval_dev", step, {"bleu": step / 10})
        curves.close()
    for name in ("news.reference", "beam1", "beam4", "step421", "other_system"):
        write(folder, f"{name}.de", sides["de"][::-1])
    write(folder, "text/teacher.de", sides["de"] * 20)
    write(folder, "pairs.tsv", map("\t".join, PAIRS))
    write(folder, "terms.tsv", ["dog\tKöter"])
    write(folder, "messages.en", ["Copied %d of %s"])
    write(folder, "messages.po", ['msgid "Open"', 'msgstr ""'])
    write(folder, "old.tmx", [memory()])
    unit = '<trans-unit id="1"><source>Open</source></trans-unit>'
    head = '<file original="a" datatype="plaintext" source-language="en" target-language="de">'
    write(folder, "manual.xlf", [f'<xliff version="1.2">{head}<body>{unit}</body></file></xliff>'])
    for name in ("website/index.html", "index.html", "about.md"):
        write(folder, name, ["Open"])
    parts = Path(__file__).parents[2] / "examples" / "parts"
    shutil.copytree(parts, folder / "examples" / "parts")
    return folder


def memory():
    units = "".join(f'<tuv xml:lang="{code}"><seg>Shut</seg></tuv>' for code in ("en", "de"))
    return f"<tmx><body><tu>{units}</tu></body></tmx>"


def write(folder, name, lines):
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


@pytest.fixture(scope="module")
def stubs(tmp_path_factory):
    """A folder of programs that record how they are called."""
    return write_stubs(tmp_path_factory.mktemp("stubs"), OTHER_PROGRAMS)


@pytest.fixture
def calls_of(folder, stubs, tmp_path):
    """calls_of(block): (arguments, input) of the t2t commands that the block calls."""

    def calls_of(block):
        recorded = recorded_calls(block.text, folder, stubs, tmp_path, strict=not block.reason)
        calls = list(recorded)
        commands = re.findall(r"^(?:[^#\n]*[ |])?t2t-[a-z-]+ ", block.text, re.M)
        assert len(calls) == len(commands)
        return calls

    return calls_of


def test_no_command_stands_outside_a_block(root):
    for path in pages(root):
        text = outside_blocks(path.read_text(encoding="utf-8"))
        assert re.findall(r"^ {4}(?:t2t-|pip |make |python |\. ).*", text, re.M) == [], path


def test_no_document_names_a_package_index(root):
    for path in pages(root):
        assert "pip install 't2t-keras[" not in path.read_text(encoding="utf-8"), path


def check_names(flags):
    """Settings are named and valued as the command will want them."""
    values = {name: flags[name].value for name in flags}
    if values.get("problem"):
        make_problem(flags.problem, flags.problem_config)
    if "hparams_set" in values:
        name = flags.hparams_set if flags.hparams_set != "auto" else ""
        hyperparameters.hparams(name or "transformer_base", values.get("hparams") or {})
    decode_config(values.get("decode_hparams") or {})


@cases(block for block in SHELL if block.reason or block.page in FRONT)
@pytest.mark.usefixtures("own_registry")
def test_flags_and_names_exist(block, folder, calls_of, monkeypatch):
    monkeypatch.chdir(folder)
    for arguments, _ in calls_of(block):
        run_command(module_of(arguments[0]).define_flags, check_names, arguments)


@cases(block for block in SHELL if not block.reason and block.page not in FRONT)
@pytest.mark.usefixtures("eagerly")
def test_commands_run(block, folder, calls_of, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setattr(experiment, "recommendation", lambda *arguments: "")
    monkeypatch.setattr(Problem, "decoding", {"min_length": 2})  # An empty line cannot be filtered.
    for (program, *arguments), text in calls_of(block):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text), encoding="utf-8"))
        if program == "t2t-datagen":  # Little text has few pieces.
            arguments = [
                re.sub("^(--problem_config=.*)$", r"\1,vocab_size=300", argument)
                for argument in arguments
            ]
        module_of(program).run([program, *arguments])


@pytest.mark.filterwarnings("ignore:.*does not have a `quantize` method")
@pytest.mark.usefixtures("eagerly", "own_registry")
@pytest.mark.parametrize("page", sorted({block.page for block in PYTHON} - ELSEWHERE))
def test_python_runs(page, folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setattr(keras.utils, "plot_model", lambda model, path: None)  # needs Graphviz
    names = {}
    for block in PYTHON:
        if block.page == page and not block.reason:
            exec(compile(block.text, str(block), "exec"), names)


@cases(block for block in PYTHON if block.reason)
def test_what_python_that_does_not_run_imports_exists(block):
    for node in ast.walk(ast.parse(block.text)):
        if isinstance(node, ast.ImportFrom) and node.module.startswith("t2t_keras"):
            module = importlib.import_module(node.module)
            assert all(hasattr(module, name.name) for name in node.names), block


@cases(block for block in BLOCKS if block.language == "yaml" and not block.reason)
def test_a_file_of_flags_is_read(block, tmp_path):
    (tmp_path / "run.yaml").write_text(block.text)
    command = ["t2t-trainer", f"--config={tmp_path / 'run.yaml'}"]
    run_command(module_of("t2t-trainer").define_flags, check_names, command)


def test_every_block_has_a_language_that_is_known():
    known = {"sh", "bash", "console", "python", "yaml", "toml", ""}
    assert [str(block) for block in BLOCKS if block.language not in known] == []
