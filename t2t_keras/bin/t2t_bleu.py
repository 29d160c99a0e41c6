"""Scores a translation against a reference: BLEU and chrF, each with sacrebleu's signature.

t2t-bleu --translation=newstest2014.de.decodes --reference=newstest2014.de
t2t-bleu --translation=... --reference=... --convention=compound_split --language=de
t2t-bleu --translations_dir=news --reference=news.de --event_dir=runs/base/news --wait_minutes=60

With --translations_dir it scores every file that t2t-translate-all writes there, as it comes, adds
a point to TensorBoard's curves, and a line to results.jsonl; what stands there is not scored again.
"""

import functools
from collections.abc import Sequence

from absl import flags as absl_flags

from t2t_keras.bin.flags import FlagValues, required, run_command
from t2t_keras.bin.following_flags import define_following, patience
from t2t_keras.data.text_files import read_text
from t2t_keras.errors import UserError
from t2t_keras.evaluation.bleu import TOKENIZATIONS, bleu
from t2t_keras.evaluation.conventions import CONVENTIONS

_OF_A_DIRECTORY = ("source", "event_dir", "min_steps", "wait_minutes")


def define_flags(flags: FlagValues) -> None:
    """Adds this command's own flags."""
    absl_flags.DEFINE_string("translation", "", "File to score.", flag_values=flags)
    absl_flags.DEFINE_string("reference", "", "File of references.", flag_values=flags)
    absl_flags.DEFINE_string(
        "tokenize",
        "13a",
        f"How BLEU tokenises: {', '.join(TOKENIZATIONS)}; none for tokenised text.",
        flag_values=flags,
    )
    absl_flags.DEFINE_string(
        "convention",
        "sacrebleu",
        "Adds BLEU under another convention, named as such: tokenised (by Moses's rules, as "
        "multi-bleu.perl) or compound_split (and split at hyphens, with some punctuation made "
        "ASCII, as tensor2tensor's get_ende_bleu.sh). Both take plain text, and need --language.",
        flag_values=flags,
    )
    absl_flags.DEFINE_string(
        "language", "", "Code of the translations' language, for --convention.", flag_values=flags
    )
    absl_flags.DEFINE_boolean("lowercase", False, "Ignores case.", flag_values=flags)
    absl_flags.DEFINE_string(
        "translations_dir", "", "Directory of t2t-translate-all to score.", flag_values=flags
    )
    absl_flags.DEFINE_string(
        "source",
        "",
        "The file whose translations are scored, where --translations_dir has those of several.",
        flag_values=flags,
    )
    absl_flags.DEFINE_string(
        "event_dir",
        "",
        "Where the curves and the results go; default: --translations_dir.",
        flag_values=flags,
    )
    define_following(flags, "translations")


def main(flags: FlagValues) -> None:
    """Scores and prints."""
    _check_combination(flags)
    others = [] if flags.convention == CONVENTIONS[0] else [flags.convention]
    if others and flags.tokenize == "none":
        raise UserError(f"--convention={flags.convention} takes plain text: leave --tokenize out.")
    score = functools.partial(
        bleu,
        tokenize=flags.tokenize,
        lowercase=flags.lowercase,
        conventions=others,
        language=flags.language,
    )
    if not flags.translations_dir:
        print(score(read_text(flags.translation), read_text(flags.reference)))
        return
    from t2t_keras.evaluation.score_all import score_all

    score_all(
        flags.translations_dir,
        read_text(flags.reference),
        score,
        score.keywords,
        source=flags.source,
        event_dir=flags.event_dir,
        patience=patience(flags),
        min_steps=flags.min_steps,
    )


def _check_combination(flags: FlagValues) -> None:
    """Raises `UserError` where a flag is missing, or would silently be ignored."""
    if flags.translation and flags.translations_dir:
        raise UserError("--translation and --translations_dir exclude each other: leave one out.")
    required(flags, *([] if flags.translations_dir else ["translation"]), "reference")
    given = [f"--{name}" for name in _OF_A_DIRECTORY if getattr(flags, name)]
    if given and not flags.translations_dir:
        raise UserError(f"{' and '.join(given)} have no meaning without --translations_dir.")


def run(argv: Sequence[str] | None = None) -> None:
    """Runs the command."""
    run_command(define_flags, main, argv)


if __name__ == "__main__":
    run()
