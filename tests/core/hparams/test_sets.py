"""Every registered set: what the paper states of it, and the command in its docstring."""

import re
import types

import pytest

from t2t_keras import experiment, hyperparameters, registry
from t2t_keras.bin import t2t_trainer

SETS = sorted(
    name
    for name, entry in registry.HPARAMS_SETS.items()
    if entry.__module__.startswith("t2t_keras.hparams.")
)


def test_the_base_model_is_the_paper_s():
    """Sections 5.1, 5.3 and 5.4; sizes are in Table 3."""
    hparams = hyperparameters.hparams("transformer_base")
    assert hyperparameters.changed_hparams(hparams) == {}
    stated = dict(batch_tokens=25_000, warmup_steps=4000, learning_rate=1.0)
    stated |= dict(adam_beta1=0.9, adam_beta2=0.98, adam_epsilon=1e-9)
    stated |= dict(attention_dropout=0.0, relu_dropout=0.0, clip_norm=0.0)
    stated |= dict(
        pre_norm=False, positions="sinusoidal", activation="relu", self_attention_radius=0
    )
    assert {name: getattr(hparams, name) for name in stated} == stated


@pytest.mark.parametrize(
    ("name", "parent", "changes"),
    [
        # Section 6.1.
        ("transformer_big_enfr", "transformer_big", dict(dropout=0.1)),
        # Section 6.3; dropouts and warm-up are tensor2tensor's.
        (
            "transformer_parsing_base",
            "transformer_base",
            dict(num_layers=4, d_model=1024, max_length=512)
            | dict(dropout=0.2, attention_dropout=0.2, warmup_steps=16_000),
        ),
        (
            "transformer_parsing_big",
            "transformer_parsing_base",
            dict(dropout=0.1, attention_dropout=0.1, warmup_steps=4000),
        ),
        # As measured in their docstrings and in experiments/own_text.
        (
            "transformer_cpu",
            "transformer_base",
            dict(num_layers=4, d_model=128, d_ff=512, num_heads=4, dropout=0.2, pre_norm=True)
            | dict(batch_tokens=1024, learning_rate=0.6, warmup_steps=500, train_steps=20_000),
        ),
        (
            "transformer_small",
            "transformer_cpu",
            dict(num_layers=2, d_model=256, d_ff=1024, dropout=0.1, batch_tokens=2048)
            | dict(learning_rate=0.8, warmup_steps=1000, train_steps=50_000),
        ),
        # The "Tiny" of Wu et al. (2021), and the toy's.
        (
            "transformer_multi30k",
            "transformer_base",
            dict(num_layers=4, d_model=128, d_ff=256, num_heads=4, dropout=0.3, batch_tokens=2048)
            | dict(learning_rate=0.6, warmup_steps=1000, train_steps=22_000),
        ),
        (
            "transformer_tiny",
            "transformer_base",
            dict(num_layers=2, d_model=128, d_ff=512, num_heads=4, dropout=0.0, batch_tokens=2048)
            | dict(warmup_steps=400, train_steps=1200),
        ),
        (
            "transformer_parsing_small",
            "transformer_tiny",
            dict(num_layers=4, dropout=0.1, pre_norm=True, learning_rate=0.6, warmup_steps=1000)
            | dict(train_steps=12_000, max_length=512),
        ),
        # tensor2tensor's transformer_base_v3.
        (
            "transformer_base_v3",
            "transformer_base",
            dict(pre_norm=True, attention_dropout=0.1, relu_dropout=0.1, adam_beta2=0.997)
            | dict(learning_rate=2.0, warmup_steps=8000),
        ),
    ],
)
def test_sets_differ_from_their_parent_in_what_is_stated(name, parent, changes):
    assert hyperparameters.changed_hparams(hyperparameters.hparams(name), parent) == changes


@pytest.mark.parametrize("name", SETS)
def test_the_docstring_has_a_command_that_runs_as_it_stands(name, monkeypatch, tmp_path):
    runs = []

    def train_run(config, output_dir, *arguments):
        runs.append((config, output_dir))
        return config, types.SimpleNamespace(signal=0)

    monkeypatch.setattr(experiment, "train_run", train_run)
    monkeypatch.setattr(t2t_trainer, "open_generated", lambda *arguments: None)
    monkeypatch.chdir(tmp_path)
    docstring = registry.HPARAMS_SETS[name].__doc__
    (command,) = re.findall(r"^ *(t2t-trainer (?:.*\\\n)*.*)$", docstring, re.MULTILINE)
    t2t_trainer.run(command.replace("\\\n", " ").split())
    [(config, output_dir)] = runs
    assert (config.hparams_set, config.data_dir) == (name, "data")
    assert config.hparams == hyperparameters.hparams(name)
    assert output_dir.startswith("runs/")
