"""Every registered set differs from the base model in what the paper states, and nothing else."""

import dataclasses
import re
import types

import pytest

from t2t_keras import registry
from t2t_keras.bin import t2t_trainer
from t2t_keras.hyperparameters import HParams
from t2t_keras.tables.paper import PARAMETER_ATTENTION, TABLE_3
from t2t_keras.training import run_request

# Tables 3 and 4, sections 6.1 and 6.3, the paper's source (attention over parameters), and what is
# known of the two sets that are not the paper's.
BIG = dict(d_model=1024, d_ff=4096, num_heads=16, train_steps=300_000)
PARSING = dict(num_layers=4, d_model=1024, max_length=512)
STATED = {
    "transformer_base": {},
    "transformer_h1": dict(num_heads=1),
    "transformer_h4": dict(num_heads=4),
    "transformer_h16": dict(num_heads=16),
    "transformer_h32": dict(num_heads=32),
    "transformer_k128": dict(d_k=16),
    "transformer_k256": dict(d_k=32),
    "transformer_l2": dict(num_layers=2),
    "transformer_l4": dict(num_layers=4),
    "transformer_l8": dict(num_layers=8),
    "transformer_hs256": dict(d_model=256),
    "transformer_hs1024": dict(d_model=1024),
    "transformer_ff1024": dict(d_ff=1024),
    "transformer_ff4096": dict(d_ff=4096),
    "transformer_dr0": dict(dropout=0.0),
    "transformer_dr2": dict(dropout=0.2),
    "transformer_ls0": dict(label_smoothing=0.0),
    "transformer_ls2": dict(label_smoothing=0.2),
    "transformer_learned_positions": dict(learned_positions=256),
    "transformer_big": BIG | dict(dropout=0.3),
    "transformer_big_enfr": BIG,
    "transformer_parameter_attention_a": dict(parameter_attention_heads=8, d_ff=1536),
    "transformer_parameter_attention_b": dict(parameter_attention_heads=16, d_ff=512),
    "transformer_parsing_base": PARSING
    | dict(dropout=0.2, attention_dropout=0.2, warmup_steps=16_000),
    "transformer_parsing_big": PARSING | dict(attention_dropout=0.1),
    "transformer_parsing_small": dict(
        num_layers=4,
        d_model=128,
        d_ff=512,
        num_heads=4,
        pre_norm=True,
        learning_rate=0.6,
        warmup_steps=1000,
        train_steps=12_000,
        batch_tokens=2048,
        max_length=512,
    ),
    "transformer_base_v3": dict(
        pre_norm=True,
        attention_dropout=0.1,
        relu_dropout=0.1,
        adam_beta2=0.997,
        learning_rate=2.0,
        warmup_steps=8000,
    ),
    "transformer_multi30k": dict(
        num_layers=4,
        d_model=128,
        d_ff=256,
        num_heads=4,
        dropout=0.3,
        learning_rate=0.6,
        warmup_steps=1000,
        train_steps=22000,
        batch_tokens=2048,
    ),
}
# Of the paper's head widths, those that follow from d_model and h; (d_k, d_v).
HEAD_WIDTHS = {
    "transformer_base": (64, 64),
    "transformer_h1": (512, 512),
    "transformer_h4": (128, 128),
    "transformer_h16": (32, 32),
    "transformer_h32": (16, 16),
    "transformer_k128": (16, 64),
    "transformer_k256": (32, 64),
    "transformer_hs256": (32, 32),
    "transformer_hs1024": (128, 128),
    "transformer_big": (64, 64),
    "transformer_parsing_base": (128, 128),
}
# Not the paper's, and tested in test_transformer.py.
OTHERS = {"transformer_small", "transformer_tiny"}


@pytest.mark.parametrize("name", STATED)
def test_differs_from_base_in_exactly_what_is_stated(name):
    base = dataclasses.asdict(HParams())
    values = dataclasses.asdict(registry.hparams(name))
    assert {each: value for each, value in values.items() if value != base[each]} == STATED[name]


@pytest.mark.parametrize("name", HEAD_WIDTHS)
def test_widths_of_the_heads(name):
    assert registry.hparams(name).head_widths() == HEAD_WIDTHS[name]


def docstring(name):
    return registry._hparams_sets.get(name).__doc__


@pytest.fixture
def requested(monkeypatch, tmp_path):
    """The runs that t2t-trainer is asked for, which are not trained."""
    requests = []

    def run_training(request, output_dir, *arguments, **options):
        requests.append((request, output_dir))
        return types.SimpleNamespace(signal=0)

    monkeypatch.setattr(run_request, "run_training", run_training)
    monkeypatch.chdir(tmp_path)
    return requests


@pytest.mark.parametrize("name", [*STATED, *sorted(OTHERS)])
def test_the_docstring_has_a_command_that_runs_as_it_stands(name, requested):
    (command,) = re.findall(r"^ *(t2t-trainer (?:.*\\\n)*.*)$", docstring(name), re.MULTILINE)
    t2t_trainer.run(command.replace("\\\n", " ").split())
    ((request, output_dir),) = requested
    assert request.hparams_set == name
    assert request.hparams == registry.hparams(name)
    assert request.data_dir == "data"
    assert output_dir.startswith("runs/")


@pytest.mark.parametrize("row", [*TABLE_3, *PARAMETER_ATTENTION], ids=lambda row: row.hparams_set)
def test_the_docstring_has_the_paper_s_row_and_figures(row):
    text = " ".join(docstring(row.hparams_set).split())
    # A group has a letter; attention over parameters is in no row of the table.
    names = f"row ({row.row})", f"row {row.row})", f"{row.row}:"
    assert sum(name in text for name in names) == 1
    assert f"perplexity {row.perplexity:.2f}, {row.bleu} BLEU" in text


def test_no_set_of_the_package_is_left_out():
    package = {
        name
        for name, entry in registry._hparams_sets.all().items()
        if entry.__module__.startswith("t2t_keras.hparams.")
    }
    assert package == set(STATED) | OTHERS
