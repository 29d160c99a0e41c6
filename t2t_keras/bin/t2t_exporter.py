"""Exports a run as a SavedModel that takes text and gives text.

t2t-exporter --output_dir=runs/averaged --export_dir=exports/ende --measure
t2t-exporter --output_dir=runs/averaged --dtype=int8
"""

from collections.abc import Sequence
from pathlib import Path

from absl import flags as absl_flags

from t2t_keras.bin.flags import FlagValues, run_command
from t2t_keras.errors import UserError


def define_flags(flags: FlagValues) -> None:
    """Adds this command's own flags."""

    def text(name: str, default: str, meaning: str) -> None:
        absl_flags.DEFINE_string(name, default, meaning, flag_values=flags)

    text("export_dir", "", "Where <version>/ is written; default: export/ in --output_dir.")
    text("checkpoint_path", "", "Path prefix of a checkpoint; default: the newest of --output_dir.")
    text("decode_hparams", "", 'Decoding settings, "beam_size=4,alpha=0.6,extra_length=50,...".')
    text("dtype", "float32", "How weights are stored: float32, bfloat16 or int8.")
    absl_flags.DEFINE_boolean(
        "measure",
        None,
        "Scores the problem's dev set for the README; default: only where --dtype is not float32.",
        flag_values=flags,
    )
    text("results_file", "results.jsonl", "File of results, from which the README has its scores.")
    text("servable_name", "translate", "What the model is called in the README's examples.")


def main(flags: FlagValues) -> None:
    """Exports as the flags say."""
    from t2t_keras.bin.recorded_run import recorded_run
    from t2t_keras.decoding.trained_model import checkpoint_at
    from t2t_keras.decoding.translator import Translator
    from t2t_keras.serving.export import export
    from t2t_keras.serving.origin import dev_text, measured_score, recorded_scores, run_origin
    from t2t_keras.serving.signatures import check_settings
    from t2t_keras.serving.stored_weights import check_dtype

    check_dtype(flags.dtype)
    record = recorded_run(flags)
    # Looked up once: a training that goes on may write another one meanwhile.
    checkpoint = checkpoint_at(flags.checkpoint_path or flags.output_dir)
    translator = Translator.from_run(flags.output_dir, checkpoint, flags.decode_hparams)
    check_settings(translator.config)
    text = dev_text(record, flags.data_dir)
    if flags.measure and not text:
        raise UserError(
            "--measure needs the dev set, and the data is not where the run had it. Give "
            "--data_dir, or leave --measure out."
        )
    scores = recorded_scores(record, checkpoint, flags.results_file)
    exact = flags.dtype == "float32"
    measure = bool(text) and not exact if flags.measure is None else flags.measure
    if measure:
        scores.append(measured_score(translator, record, flags.dtype, text))
    elif not exact:
        scores.append(f"what weights as {flags.dtype} lose was not measured")
    print(scores[-1] if scores else "Without a score: --measure measures one.", flush=True)
    version = export(
        translator,
        flags.export_dir or Path(flags.output_dir) / "export",
        dtype=flags.dtype,
        origin=run_origin(record, checkpoint, scores, example=text[0][0] if text else ""),
        servable_name=flags.servable_name,
    )
    print(
        f"{version}: SavedModel, signature serving_default: text -> translation, score; README.md "
        f"there has the others"
    )


def run(argv: Sequence[str] | None = None) -> None:
    """Runs the command."""
    run_command(define_flags, main, argv)


if __name__ == "__main__":
    run()
