"""The card of a model, in every export: what it is, how it was made, and how good it is."""

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
    "Not measured. What `t2t-eval` or `t2t-decoder` recorded of this checkpoint stands here."
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
      folder: the export's.
      translator: what is exported. Without the record of a run, the card has less to tell.
      format_name: of the export.
      dtype: type of the stored weights.
      scores: a line for each score.
      notes: Markdown on uses, limits and the licence.
    """
    record, defaults = translator.run_config, dataclasses.asdict(DecodeConfig())
    search = {
        name: value
        for name, value in dataclasses.asdict(translator.config).items()
        if name in ("beam_size", "alpha") or value != defaults[name]
    }
    fields = {
        "title": f"{translator.problem.name or 'a model'}, {translator.tokenizer.vocab_size:,} ids",
        "model": "; ".join(map(_description, translator.models)),
        "dtype": dtype,
        "format": format_name,
        "search": as_assignments(search),
        "versions": ", ".join(f"{name} {text}" for name, text in installed_versions().items()),
        "data": _training_data(record) if record else "Not known.",
        "commands": _commands(translator, record, format_name, dtype) if record else "Not known.",
        "scores": "\n".join(f"- {line}" for line in scores) or _NO_SCORES,
        "notes": notes.strip() or _NO_NOTES,
    }
    (folder / CARD_FILE).write_text(_CARD.format(**fields), encoding="utf-8")


def _description(model: Any) -> str:
    settings = ", ".join(
        f"{name} {getattr(model.config, name):,}" for name in ("d_model", "d_ff", "num_heads")
    )
    encoder, decoder = model.config.depths()
    name = type(model).__name__
    return f"{name}, {encoder} + {decoder} layers, {settings}, {model.count_params():,} weights"


def _training_data(record: RunConfig) -> str:
    text = f"SHA-256 of the encoded examples: {record.data}"
    try:
        manifest = read_manifest(Path(record.data_dir) / record.problem.name, record.problem)
    except UserError:  # The data may have been moved or deleted.
        return text
    return f"```\n{describe(manifest)}\n```\n\n{text}"


def _commands(translator: Translator, record: RunConfig, format_name: str, dtype: str) -> str:
    problem, defaults = record.problem, type(record.problem)().config()
    settings = {k: value for k, value in problem.config().items() if value != defaults[k]}
    of_problem = {"problem": problem.name, "problem_config": as_assignments(settings)}
    hparams = as_assignments(changed_hparams(record.hparams, record.hparams_set))
    train = dict(data_dir="data", output_dir="run", hparams_set=record.hparams_set, hparams=hparams)
    seed = {"random_seed": record.random_seed}
    lines = [
        command_line("t2t-datagen", **of_problem, tmp_dir="text", data_dir="data"),
        command_line("t2t-trainer", **of_problem, **train, **seed),
    ]
    exported = "run"
    if record.averaged != 1:
        exported = "averaged"
        average = dict(model_dir="run", output_dir=exported, n=record.averaged or "")
        lines.append(command_line("t2t-avg-all", **average))
    export = dict(output_dir=exported, format=format_name, dtype=dtype)
    lines.append(command_line("t2t-exporter", **export))
    step = step_of((translator.checkpoint_identity or {}).get("checkpoint", ""))
    steps = f"\n\nThe weights are those of step {step:,}." if step else ""
    commands = "\n".join(line.strip() for line in lines)
    return f"```sh\n{commands}\n```{steps}"
