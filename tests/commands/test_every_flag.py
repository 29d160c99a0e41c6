"""Every flag of every command reaches the setting that it names.

Stubs replace the functions of the library that a command calls; their arguments are compared with
the flags. A flag without an entry in every_flag.yaml fails.
"""

import dataclasses
import importlib
import inspect
import shlex
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest
import yaml
from absl.flags import ArgumentParser, ListParser
from commands import module_of, modules_of_commands

from t2t_keras import hyperparameters, registry
from t2t_keras.bin.flags import RUN_FLAGS
from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.line_job import Shard
from t2t_keras.decoding.stored_model import StoredRun
from t2t_keras.io.flags import Flags
from t2t_keras.parsing.score import PARAMETERS
from t2t_keras.training.run_config import RunConfig

P = "t2t_keras."
TRANSLATOR = SimpleNamespace(
    config=DecodeConfig(),
    checkpoint_identity={"checkpoint": "run/model.ckpt-20", "digest": "d"},
    engine=SimpleNamespace(name="stub"),
    stages=(),
    with_stages=lambda *stages: TRANSLATOR,
)
CLIENT = SimpleNamespace(close=lambda: None, translate=None)
TEXT = SimpleNamespace(kind="", source="one", reference="ref", output="one", is_new=False)
# The stubs by name: the module of the function, and what the stub returns.
STUBS = {
    "average_run": ("training.averaging", None),
    "bleu": ("bin.t2t_bleu", "scores"),
    "score_all": ("evaluation.follow", None),
    "compare": ("lab.bin.t2t_compare", None),
    "as_json": ("lab.bin.t2t_compare", {}),
    "read_runs": ("lab.bin.t2t_compare", SimpleNamespace(systems=())),
    "read_files": ("lab.bin.t2t_compare", SimpleNamespace(systems=())),
    "CometModel": ("lab.bin.t2t_compare", "comet"),
    "check_metrics": ("lab.bin.t2t_compare", None),
    "Significance": ("lab.bin.t2t_compare", "significance"),
    "generate": ("bin.t2t_datagen", None),
    "open_generated": ("bin.t2t_datagen", None),
    "recommendation": ("experiment", "recommended"),
    "recommended_hparams": ("experiment", lambda: hyperparameters.hparams("transformer_tiny")),
    "from_run": ("decoding.translator.Translator", TRANSLATOR),
    "from_stored": ("decoding.translator.Translator", TRANSLATOR),
    "with_terms": ("workbench.terms.stage", TRANSLATOR),
    "MinimumBayesRisk": ("lab.minimum_bayes_risk", None),
    "with_whole_trees": ("lab.whole_trees", TRANSLATOR),
    "translate_file": ("decoding.file_job", None),
    "score_file": ("decoding.file_job", None),
    "translate_interactively": ("decoding.file_job", None),
    "first_hypotheses": ("decoding.file_job", ["A man"]),
    "translate_disturbed": ("decoding.disturbed", [TEXT]),
    "run_result": ("evaluation.results", None),
    "append_result": ("evaluation.results", None),
    "translate_all": ("decoding.all_checkpoints", None),
    "evaluate_all": ("evaluation.follow", None),
    "evalb": ("bin.t2t_evalb", ()),
    "export": ("serving.export", "version"),
    "export_settings": ("serving.signatures", DecodeConfig()),
    "recorded_scores": ("serving.export", []),
    "measured_score": ("serving.export", "score"),
    "dev_text": ("serving.export", (["A man"], ["Ein Mann"])),
    "check_format": ("serving.formats", None),
    "write_format": ("serving.formats", "written"),
    "filter_pairs": ("lab.filtering", "filtered"),
    "read_model": ("interop.importers.imported", None),
    "make_run": ("interop.importers.imported", None),
    "sentence_insights": ("lab.insights", [SimpleNamespace(attention=None)]),
    "attention_page": ("lab.insights", "page"),
    "attention_view": ("lab.insights", "view"),
    "write_figure": ("lab.insights", ""),
    "run_curves": ("lab.plot", {"loss": None}),
    "text_plot": ("lab.plot", "plot"),
    "write_plot": ("lab.plot", ""),
    "GrpcClient": ("serving.client", CLIENT),
    "RestClient": ("serving.client", CLIENT),
    "_print_translation": ("bin.t2t_query_server", None),
    "translate_stream": ("serving.client", (0, 0, 0)),
    "run_recipe": ("recipes.running", None),
    "describe": ("recipes.running", "plan"),
    "complexity_table": ("tables", None),
    "cost_row": ("tables", None),
    "cost_table": ("tables", None),
    "weights_table": ("tables", None),
    "render": ("tables", "table"),
    "read_results": ("evaluation.results", []),
    "train_run": ("experiment", (None, SimpleNamespace(signal=0))),
    "dry_run": ("training.microbatch", "estimate"),
    "_generate_missing_data": ("bin.t2t_trainer", None),
    "translate_files": ("workbench.documents.translating", 0),
    "share_cores": ("decoding.keras_engine", None),
    "serve": ("workbench.server.run", None),
}


class OtherEngine(StoredRun):
    """An engine that loads runs, too."""

    interactive_settings: ClassVar = {"batches_at_once": 1}
    name = "ctranslate2"

    def __init__(self, path, checkpoint_path=None):
        self.model_path = Path(path)
        if RunConfig.exists(path):
            super().__init__(path, checkpoint_path)

    @classmethod
    def find(cls, path):
        return path if (path / "t2t_keras.json").exists() else None

    def files(self):
        return [self.model_path / "t2t_keras.json"]

    def share_cores(self, config):
        pass


# A command line, and the functions that get its flags.
CASES = [
    (case.pop("command"), case)
    for case in yaml.safe_load(Path(__file__).with_name("every_flag.yaml").read_text())
]
# Flags of all commands, which tests/core/bin/test_every_command.py covers.
OF_ALL = {"config", "t2t_usr_dir", "registry_help", "help", "helpfull", "version"}


@pytest.fixture(scope="module")
def folder(random_run, tmp_path_factory):
    """The working directory, with a run, its data twice, and texts of a line."""
    folder = tmp_path_factory.mktemp("every_flag")
    for name in ("run", "run-2"):
        shutil.copytree(random_run, folder / name)
    # Of one layer, --figure_layer=0 would be the default.
    record = RunConfig.load(folder / "run")
    deep = dataclasses.replace(record.hparams, num_layers=2, num_decoder_layers=3)
    dataclasses.replace(record, hparams=deep).save(folder / "run")
    shutil.copytree(random_run.parent / "data", folder / "data")
    shutil.copytree(folder / "data", folder / "data-2")
    for name in ("one", "a.txt"):
        (folder / name).write_text("A man\n")
    (folder / "ref").write_text("Ein Mann\n")
    (folder / "terms").write_text("a\tb\n")
    for name in ("dir", "events", "ct2"):
        (folder / name).mkdir()
    (folder / "ct2" / "t2t_keras.json").touch()
    return folder


@pytest.fixture
def calls(folder, monkeypatch):
    """The arguments of the calls of each stub, by its name, in order."""
    monkeypatch.chdir(folder)
    monkeypatch.setitem(registry.ENGINES.entries, OtherEngine.name, OtherEngine)
    calls = {name: [] for name in STUBS}

    def stub(owner, name, result):
        signature = inspect.signature(getattr(owner, name))

        def replacement(*args, **kwargs):
            calls[name].append(dict(signature.bind(*args, **kwargs).arguments))
            return result() if callable(result) else result

        monkeypatch.setattr(owner, name, replacement)

    # All are imported before: what is imported later would keep a stub as its own function.
    owners = [
        importlib.import_module(P + path.removesuffix(".Translator")) for path, _ in STUBS.values()
    ]
    for owner, (name, (path, result)) in zip(owners, STUBS.items(), strict=True):
        stub(owner.Translator if path.endswith(".Translator") else owner, name, result)
    return calls


def parsed(command):
    """The flags of a command line."""
    flags = Flags()
    module_of(command).define_flags(flags)
    flags.parse(shlex.split(command))
    return flags


def captured(calls, function, path):
    """What a function got: an argument, an attribute or a number of entries of it."""
    if path == "called":
        return bool(calls[function])
    actual = calls[function][-1]
    for part in path.split("."):
        if part == "count":
            actual = len(actual)
        elif part.isdecimal():
            actual = actual[int(part)]
        else:
            actual = actual[part] if isinstance(actual, dict) else getattr(actual, part)
    return actual


def entries(expected):
    """(function, flag, path of an argument, literal or "") of each entry."""
    for function, text in expected.items():
        for entry in text.split(" "):
            flag, _, path = entry.partition("=")
            path, _, literal = path.partition(":")
            yield function, flag, path or flag, literal.replace("~", " ")


@pytest.mark.parametrize(("command", "expected"), CASES)
def test_flags_reach_what_they_name(calls, folder, command, expected):
    if "--figure" in command or "plot" in command:
        pytest.importorskip("matplotlib", reason="needs matplotlib")
    flags = parsed(command)
    module_of(command).run(shlex.split(command))
    for function, flag, path, literal in entries(expected):
        value = flags[flag].value
        assert value != flags[flag].default, f"--{flag} has its default"
        if function == "file":
            assert (folder / value).is_file(), flag
            continue
        value = PARAMETERS[value] if flag == "param" else value
        actual = captured(calls, function, path)
        if literal or isinstance(actual, str | Path | Shard):
            assert str(actual) == (literal or str(value)), flag
        else:
            assert actual == value or list(actual) == value, flag


RUNS = ("t2t-decoder", "t2t-eval", "t2t-exporter", "t2t-insights --sentence=a", "t2t-translate-all")
# Another value of each flag, and what the error names.
OTHERS = {
    "problem": ("translate_ende_toy", "problem translate_ende_toy"),
    "problem_config": ("vocab_size=301", "vocab_size 301"),
    "model": ("other", "model other"),
    "hparams_set": ("transformer_base", "d_model 16 512"),
    "hparams": ("d_ff=99", "d_ff 16 99"),
}


@pytest.mark.parametrize("command", RUNS)
def test_what_a_run_is_must_agree(calls, refused, command):
    for flag in RUN_FLAGS:
        value, names = OTHERS[flag]
        error = f"other_settings --output_dir=run {names}"
        refused(error, *command.split(), "--output_dir=run", f"--{flag}={value}")


# Flags whose text is no path; of all commands, or after the name of one.
WORDS = """
tokenize convention dtype language names metrics beam_runner beam_pipeline_options shard disturb
sentence decode_hparams servable_name figure_heads curves inputs_once server signature_name
metadata host engine exporter.format
trusted_proxies cors hardware best_by profile_steps source_language target_language problem hparams
problem_config hparams_set bleu.source decoder.model eval.model exporter.model insights.model
translate-all.model trainer.model
"""


def test_all_other_text_is_a_path_and_has_its_home_directory_replaced():
    for command in modules_of_commands():
        flags = parsed(command)
        texts = {n for n in flags if type(flags[n].parser) in (ArgumentParser, ListParser)}
        names = {(name, f"{command.removeprefix('t2t-')}.{name}") for name in texts - OF_ALL}
        assert [own for name, own in names if not {name, own} & {*WORDS.split()}] == []


def test_every_flag_is_in_a_case():
    tested = {}
    for command, expected in CASES:
        tested.setdefault(command.split()[0], set()).update(
            flag for _, flag, *_ in entries(expected)
        )
    for command in RUNS:
        tested[command.split()[0]].update(RUN_FLAGS)
    for command in modules_of_commands():
        assert set(parsed(command)) - OF_ALL - tested[command] == set(), command
