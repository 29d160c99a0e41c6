"""Exports a run as a SavedModel that takes text and gives text.

t2t-exporter --output_dir=runs/averaged --export_dir=exports/ende
"""

from collections.abc import Sequence
from pathlib import Path

from absl import flags as absl_flags

from t2t_keras.bin.flags import FlagValues, run_command


def define_flags(flags: FlagValues) -> None:
    """Adds this command's own flags."""

    def text(name: str, meaning: str) -> None:
        absl_flags.DEFINE_string(name, "", meaning, flag_values=flags)

    text("export_dir", "Where <version>/ is written; default: export/ in --output_dir.")
    text("checkpoint_path", "Path prefix of a checkpoint; default: the newest of --output_dir.")
    text("decode_hparams", 'Decoding settings, "beam_size=4,alpha=0.6,extra_length=50".')


def main(flags: FlagValues) -> None:
    """Exports as the flags say."""
    from t2t_keras.bin.recorded_run import recorded_run
    from t2t_keras.decoding.translator import Translator
    from t2t_keras.serving.export import export

    recorded_run(flags)
    translator = Translator.from_run(flags.output_dir, flags.checkpoint_path, flags.decode_hparams)
    version = export(translator, flags.export_dir or Path(flags.output_dir) / "export")
    print(f"{version}: SavedModel, signature serving_default: text -> translation, score")


def run(argv: Sequence[str] | None = None) -> None:
    """Runs the command."""
    run_command(define_flags, main, argv)


if __name__ == "__main__":
    run()
