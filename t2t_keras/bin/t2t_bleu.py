"""Scores a translation against a reference: BLEU and chrF, each with sacrebleu's signature.

t2t-bleu --translation=newstest2014.de.decodes --reference=newstest2014.de
t2t-bleu --translation=... --reference=... --convention=compound_split --language=de
"""

from collections.abc import Sequence

from absl import flags as absl_flags

from t2t_keras.bin.flags import FlagValues, required, run_command
from t2t_keras.data.text_files import read_text
from t2t_keras.errors import UserError
from t2t_keras.evaluation.bleu import TOKENIZATIONS, bleu
from t2t_keras.evaluation.conventions import CONVENTIONS


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
        "multi-bleu.perl) or compound_split (and split at hyphens, as tensor2tensor's "
        "get_ende_bleu.sh). Both take plain text, and need --language.",
        flag_values=flags,
    )
    absl_flags.DEFINE_string(
        "language", "", "Code of the translations' language, for --convention.", flag_values=flags
    )
    absl_flags.DEFINE_boolean("lowercase", False, "Ignores case.", flag_values=flags)


def main(flags: FlagValues) -> None:
    """Scores and prints."""
    required(flags, "translation", "reference")
    hypotheses, references = read_text(flags.translation), read_text(flags.reference)
    others = [] if flags.convention == CONVENTIONS[0] else [flags.convention]
    if others and flags.tokenize == "none":
        raise UserError(f"--convention={flags.convention} takes plain text: leave --tokenize out.")
    print(bleu(hypotheses, references, flags.tokenize, flags.lowercase, others, flags.language))


def run(argv: Sequence[str] | None = None) -> None:
    """Runs the command."""
    run_command(define_flags, main, argv)


if __name__ == "__main__":
    run()
