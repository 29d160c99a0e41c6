"""Model cards, one in every export: what the model is, how it was made, how good it is."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from t2t_keras.data.dataset import describe, read_manifest
from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.translator import Translator
from t2t_keras.environment import installed_versions
from t2t_keras.errors import UserError, command_line
from t2t_keras.hyperparameters import changed_hparams
from t2t_keras.settings import as_assignments
from t2t_keras.training.checkpoint_files import step_of
from t2t_keras.training.run_config import RunConfig

CARD_FILE = "MODEL_CARD.md"

_CARD = """# Model card: {title}

- model: {model}
- weights: {dtype}, for {format}
- search: {search}
- made with: {versions}

## Training data

{data}

## Commands

{commands}

## Scores

{scores}

## Uses, limits and licence

{notes}
"""
_NO_SCORES = (
    "Not measured. Scores of this checkpoint by `t2t-eval` or `t2t-decoder` would be listed here."
)
_NO_NOTES = "Not stated: the export was made without `--card_notes`."


def write_card(
    folder: Path,
    translator: Translator,
    format_name: str,
    dtype: str,
    scores: Sequence[str] = (),
    notes: str = "",
) -> None:
    """Writes the card of an export.

    Args:
      folder: folder of the export.
      translator: the exported translator. Without a run's config, the card says less.
      format_name: name of the export's format.
      dtype: type of the stored weights.
      scores: a line for each score.
      notes: Markdown on uses, limits and the licence.
    """
    config, defaults = translator.run_config, dataclasses.asdict(DecodeConfig())
    search = {
        name: value
        for name, value in dataclasses.asdict(translator.config).items()
        if name in ("beam_size", "alpha") or value != defaults[name]
    }
    fields = {
        "title": f"{translator.problem.name or 'a model'}, {translator.tokenizer.vocab_size:,} ids",
        "model": "; ".join(map(_describe_model, translator.models)),
        "dtype": dtype,
        "format": format_name,
        "search": as_assignments(search),
        "versions": ", ".join(f"{name} {text}" for name, text in installed_versions().items()),
        "data": _training_data(config) if config else "Not known.",
        "commands": _commands(translator, config, format_name, dtype) if config else "Not known.",
        "scores": "\n".join(f"- {line}" for line in scores) or _NO_SCORES,
        "notes": notes.strip() or _NO_NOTES,
    }
    (folder / CARD_FILE).write_text(_CARD.format(**fields), encoding="utf-8")


def _describe_model(model: Any) -> str:
    settings = ", ".join(
        f"{name} {getattr(model.config, name):,}" for name in ("d_model", "d_ff", "num_heads")
    )
    encoder, decoder = model.config.depths()
    name = type(model).__name__
    return f"{name}, {encoder} + {decoder} layers, {settings}, {model.count_params():,} weights"


def _training_data(config: RunConfig) -> str:
    text = f"SHA-256 of the encoded examples: {config.data}"
    try:
        manifest = read_manifest(Path(config.data_dir) / config.problem.name, config.problem)
    except UserError:  # The data may have been moved or deleted.
        return text
    return f"```\n{describe(manifest)}\n```\n\n{text}"


def _commands(translator: Translator, config: RunConfig, format_name: str, dtype: str) -> str:
    problem, defaults = config.problem, type(config.problem)().config()
    settings = {n: value for n, value in problem.config().items() if value != defaults[n]}
    problem_flags = {"problem": problem.name, "problem_config": as_assignments(settings)}
    hparams = as_assignments(changed_hparams(config.hparams, config.hparams_set))
    set_flags = dict(hparams_set=config.hparams_set, hparams=hparams)
    run_flags = dict(data_dir="data", output_dir="run", **set_flags, random_seed=config.random_seed)
    lines = [
        command_line("t2t-datagen", **problem_flags, tmp_dir="text", data_dir="data"),
        command_line("t2t-trainer", **problem_flags, **run_flags),
    ]
    exported_run = "run"
    if config.averaged != 1:
        exported_run, n = "averaged", config.averaged or ""
        lines.append(command_line("t2t-avg-all", model_dir="run", output_dir=exported_run, n=n))
    export_flags = {"output_dir": exported_run, "format": format_name, "dtype": dtype}
    lines.append(command_line("t2t-exporter", **export_flags))
    step = step_of((translator.checkpoint_identity or {}).get("checkpoint", ""))
    steps = f"\n\nThe weights are those of step {step:,}." if step else ""
    commands = "\n".join(line.strip() for line in lines)
    return f"```sh\n{commands}\n```{steps}"
