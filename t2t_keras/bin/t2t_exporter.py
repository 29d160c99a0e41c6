"""Export a run as a SavedModel that maps text to text, or for other programs.

t2t-exporter --output_dir=runs/averaged --export_dir=exports/ende --measure
t2t-exporter --output_dir=runs/averaged --dtype=int8
t2t-exporter --output_dir=runs/averaged --format=ctranslate2 --dtype=int8
"""

import re
from pathlib import Path
from typing import TYPE_CHECKING

from t2t_keras.bin.flags import (
    command,
    define_common,
    define_run,
    given_flags,
    recorded_run,
    require,
)
from t2t_keras.errors import UserError
from t2t_keras.io.files import RESULTS_FILE, check_folder, check_outputs
from t2t_keras.io.flags import Flags
from t2t_keras.registry import EXPORT_FORMATS
from t2t_keras.text.files import read_text

if TYPE_CHECKING:
    from t2t_keras.decoding.translator import Translator
    from t2t_keras.training.run_config import RunConfig

_SAVED_MODEL_FLAGS = ("measure", "servable_name", "data_dir")


def define_flags(flags: Flags) -> None:
    """Adds the flags of the command."""
    flags.group("Export")
    define_common(flags, output_dir="Directory of the run to export")
    define_common(flags, "checkpoint_path")
    formats = ("saved_model", *EXPORT_FORMATS)
    meaning = "Software to export for; saved_model = TensorFlow"
    flags.known_name("format", meaning, formats, formats[0])
    flags.path(
        "export_dir",
        "Directory to make; a SavedModel becomes a new <version>/ in it; default: export/, or the "
        "format's name, in --output_dir",
    )
    define_common(flags, "decode_hparams")
    flags.string(
        "dtype",
        "Type of the stored weights: float32 or int8; for some formats bfloat16 or float16",
        "float32",
    )
    meaning = "Name of the model in the example requests of a SavedModel's README"
    flags.string("servable_name", meaning, "translate")
    flags.group("Model card")
    flags.path("card_notes", "Markdown file on uses, limits and the licence of the model")
    meaning = "--results_file of t2t-decoder, to list the scores of this checkpoint"
    flags.path("results_file", meaning, RESULTS_FILE)
    meaning = "Score a SavedModel on the dev set; default: only if --dtype is not float32"
    flags.switch("measure", meaning, None)
    define_common(flags, "data_dir")
    define_run(flags)


@command(define_flags)
def run(flags: Flags) -> None:
    """Exports as the flags say."""
    if not re.fullmatch(r"[\w.-]+", flags.servable_name):
        raise UserError(
            f"--servable_name: expected letters, digits, '_', '.' and '-', got "
            f"{flags.servable_name!a}.",
            code="bad_value",
        )
    from t2t_keras.serving.formats import check_dtype

    check_dtype(flags.format, flags.dtype)
    notes = "\n".join(read_text(Path(flags.card_notes))) if flags.card_notes else ""
    if flags.format != "saved_model":
        _export_for_other_programs(flags, notes)
        return
    export_dir = Path(flags.export_dir or Path(flags.output_dir) / "export")
    # An export must not get more files: its manifest names all of them.
    check_outputs([], [export_dir / "<version>"])
    check_folder(export_dir, "an export")
    run_config, checkpoint, translator = _load(flags)
    from t2t_keras.serving.export import (
        dev_text,
        export,
        measured_score,
        origin_lines,
        recorded_scores,
    )
    from t2t_keras.serving.signatures import export_settings

    translator.config = export_settings(translator, flags.dtype)
    text = dev_text(run_config, flags.data_dir)
    if flags.measure and not text:
        raise UserError(
            "--measure: there is no dev set in the run's data folder. Give --data_dir.",
            code="no_data",
        )
    scores = recorded_scores(run_config, checkpoint, flags.results_file)
    is_exact = flags.dtype == "float32"
    if text and (flags.measure or (flags.measure is None and not is_exact)):
        scores.append(measured_score(translator, run_config, checkpoint, flags.dtype, text))
    elif not scores or not is_exact:
        scores.append(f"score with weights as {flags.dtype}: not measured (--measure)")
    print(scores[-1], flush=True)
    version = export(
        translator,
        export_dir=export_dir,
        dtype=flags.dtype,
        servable_name=flags.servable_name,
        origin=[*origin_lines(run_config, checkpoint), *scores],
        example=text[0][0] if text else "",
        notes=notes,
    )
    print(f"{version}: SavedModel, signature serving_default: text -> translation, score, cut")


def _export_for_other_programs(flags: Flags, notes: str) -> None:
    from t2t_keras.serving.formats import check_format, write_format

    # --nomeasure is harmless: other formats are never measured.
    values = given_flags(flags, *_SAVED_MODEL_FLAGS)
    ignored = [f"--{name}" for name, value in values.items() if value is not False]
    if ignored:
        raise UserError(
            f"{' and '.join(ignored)} would have no effect with --format={flags.format}: leave it "
            f"out.",
            code="conflicting_settings",
        )
    folder = flags.export_dir or Path(flags.output_dir) / flags.format
    # Check this before the slow loading of the model.
    check_format(flags.format, folder, flags.dtype)
    run_config, checkpoint, translator = _load(flags)
    from t2t_keras.serving.export import recorded_scores

    scores = [
        f"with exact weights, {line}"
        for line in recorded_scores(run_config, checkpoint, flags.results_file)
    ]
    print(write_format(flags.format, translator, folder, flags.dtype, scores, notes))


def _load(flags: Flags) -> "tuple[RunConfig, Path, Translator]":
    """Returns the run's config, the path of its checkpoint, and a translator with it."""
    from t2t_keras.decoding.config import decode_config
    from t2t_keras.decoding.stored_model import StoredRun
    from t2t_keras.decoding.translator import Translator

    require(flags, "output_dir")
    stored = StoredRun(flags.output_dir, flags.checkpoint_path or None)
    run_config = recorded_run(flags, load=lambda _: stored.run_config)
    config = decode_config(flags.decode_hparams, stored.defaults)
    return run_config, stored.model_path, Translator.from_stored(stored, config)


if __name__ == "__main__":
    run()
