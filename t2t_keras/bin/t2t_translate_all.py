"""Translate a text with every checkpoint of a run, also while it trains.

t2t-translate-all --output_dir=runs/base --source=news.en --translations_dir=news
t2t-translate-all --output_dir=runs/base --wait_minutes=60

The translations of step 1000 are in news/news.en-1000. Existing files are kept, and an interrupted
file is continued. The command ends after the last step of the run, or after --wait_minutes without
a new checkpoint.
"""

from pathlib import Path

from t2t_keras.bin.flags import (
    command,
    define_common,
    define_decoding,
    define_polling,
    define_run,
    eval_text,
    forbidden_phrases,
    poll_policy,
    recorded_run,
    refuse_together,
)
from t2t_keras.io.files import check_not_stream
from t2t_keras.io.flags import Flags
from t2t_keras.text.files import read_text


def define_flags(flags: Flags) -> None:
    """Adds the flags of the command."""
    flags.group("Text")
    flags.path("source", "Source text, one sentence per line; default: the dev set")
    flags.switch("eval_use_test_set", "Translate the test set, not the dev set")
    define_common(flags, "data_dir")
    flags.path(
        "translations_dir", "Directory for translations; default: translations/ in --output_dir"
    )
    flags.group("Checkpoints")
    define_common(flags, "output_dir")
    define_polling(flags, "checkpoints")
    flags.group("Decoding")
    define_decoding(flags)
    define_run(flags)


@command(define_flags)
def run(flags: Flags) -> None:
    """Translates as the flags say."""
    from t2t_keras.decoding.config import decode_config
    from t2t_keras.training.checkpoint_files import checkpoint_at

    for name in ("source", "prefix_file"):
        check_not_stream(getattr(flags, name), f"--{name} is read repeatedly")
    refuse_together(flags, {"source": ["eval_use_test_set"]})
    run_config = recorded_run(flags, poll_policy(flags))
    source, name, text = Path(flags.source), Path(flags.source).name, ""
    if not flags.source:
        split, source, _ = eval_text(flags, run_config)
        name = f"{run_config.problem.name}.{split}"
        text = run_config.problem.text_name(split, len(read_text(source)))
    # Looked up only once, as training may write newer checkpoints meanwhile.
    ensemble = [checkpoint_at(path) for path in flags.ensemble or ()]
    config = decode_config(flags.decode_hparams, run_config.problem.decoding_defaults)
    phrases = forbidden_phrases(flags)
    from t2t_keras.decoding.all_checkpoints import translate_all
    from t2t_keras.decoding.keras_engine import share_cores

    share_cores(config)
    directory = Path(flags.translations_dir or Path(flags.output_dir) / "translations")
    translate_all(
        flags.output_dir,
        run_config,
        source,
        directory / name,
        config,
        policy=poll_policy(flags),
        min_steps=flags.min_steps,
        text=text,
        prefixes=flags.prefix_file,
        ensemble=ensemble,
        forbidden=phrases,
        inputs=[flags.forbidden_file] * bool(flags.forbidden_file),
    )


if __name__ == "__main__":
    run()
