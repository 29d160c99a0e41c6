"""Translates a text with every checkpoint of a run, also of one that is still being trained.

t2t-translate-all --output_dir=runs/base --source=news.en --translations_dir=news
t2t-translate-all --output_dir=runs/base --wait_minutes=60

The translations of step 1000 are in news/news.en-1000. A file that is there is not made again; an
interrupted one goes on where it stopped. It ends when the run has reached its last step and that is
translated, or when no checkpoint came for so long.
"""

from collections.abc import Sequence
from pathlib import Path

from absl import flags as absl_flags

from t2t_keras.bin.decoding_flags import define_decoding, ensemble, forbidden
from t2t_keras.bin.flags import FlagValues, run_command
from t2t_keras.bin.following_flags import define_following, patience
from t2t_keras.data.generated import open_generated
from t2t_keras.data.text_files import read_text
from t2t_keras.errors import UserError


def define_flags(flags: FlagValues) -> None:
    """Adds this command's own flags, named as in tensor2tensor where it has them."""
    absl_flags.DEFINE_string(
        "source",
        "",
        "Source text, a sentence a line; default: the problem's dev set.",
        flag_values=flags,
    )
    absl_flags.DEFINE_boolean(
        "eval_use_test_set",
        False,
        "Translates the problem's test set, not its dev set.",
        flag_values=flags,
    )
    absl_flags.DEFINE_string(
        "translations_dir",
        "",
        "Where the translations go; default: translations/ in --output_dir.",
        flag_values=flags,
    )
    define_following(flags, "checkpoints")
    define_decoding(flags)


def main(flags: FlagValues) -> None:
    """Translates as the flags say."""
    from t2t_keras.bin.recorded_run import recorded_run
    from t2t_keras.decoding.config import decode_config
    from t2t_keras.decoding.job_files import is_stream
    from t2t_keras.decoding.side_by_side import share_cores
    from t2t_keras.decoding.trained_model import checkpoint_at
    from t2t_keras.decoding.translate_all import translate_all
    from t2t_keras.decoding.translator import Translator

    for name in ("source", "prefix_file"):
        path = getattr(flags, name)
        if path and is_stream(path):
            raise UserError(
                f"--{name} is read for each checkpoint anew: give a file, not '{path}'."
            )
    if flags.source and flags.eval_use_test_set:
        raise UserError("--source and --eval_use_test_set exclude each other: leave one out.")
    record = recorded_run(flags, patience(flags))
    source, name, text = flags.source, Path(flags.source).name, ""
    if not source:
        split = "test" if flags.eval_use_test_set else "dev"
        generated = open_generated(record.problem, flags.data_dir or record.data_dir)
        source, name = generated.text_paths(split)[0], f"{record.problem.name}.{split}"
        text = record.problem.text_name(split, len(read_text(Path(source))))
    # Looked up once: a training that goes on may write another one meanwhile.
    others = [checkpoint_at(path) for path in ensemble(flags)]
    config = decode_config(flags.decode_hparams, record.problem.decoding)
    share_cores(config)
    translator = Translator.from_record(record, config, others, forbidden(flags))
    directory = Path(flags.translations_dir or Path(flags.output_dir) / "translations")
    translate_all(
        flags.output_dir,
        record,
        translator,
        source,
        directory / name,
        patience=patience(flags),
        min_steps=flags.min_steps,
        text=text,
        prefixes=flags.prefix_file or None,
        ensemble=tuple(others),
    )


def run(argv: Sequence[str] | None = None) -> None:
    """Runs the command."""
    run_command(define_flags, main, argv)


if __name__ == "__main__":
    run()
