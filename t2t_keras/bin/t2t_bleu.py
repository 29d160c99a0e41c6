"""Score a translation against references: BLEU and chrF, with sacreBLEU's signatures.

t2t-bleu newstest2014.de.decodes newstest2014.de
t2t-bleu translation.de first-reference.de second-reference.de
t2t-bleu --translation=... --reference=... --convention=compound_split --language=de
t2t-bleu --translations_dir=news --reference=news.de --event_dir=runs/base/news --wait_minutes=60

With --translations_dir, scores every file of t2t-translate-all as it appears, and adds the scores
to TensorBoard's curves and to results.jsonl. Files that are in results.jsonl are not scored again.
"""

import functools
from collections.abc import Sequence
from pathlib import Path

from t2t_keras.bin.flags import (
    command,
    define_polling,
    poll_policy,
    refuse_alone,
    refuse_together,
    require,
)
from t2t_keras.errors import UserError
from t2t_keras.io.files import RESULTS_FILE, check_outputs
from t2t_keras.io.flags import Flags
from t2t_keras.metrics import TOKENIZATIONS, bleu
from t2t_keras.text.files import read_text

_EXCLUDED_BY_ARGUMENTS = ("translation", "reference", "translations_dir")
_DIRECTORY_FLAGS = ("source", "event_dir", "min_steps", "wait_minutes")


def define_flags(flags: Flags) -> None:
    """Adds the flags of the command."""
    flags.arguments("FILE REF ...", "File to score, and one or more files of references")
    flags.group("One file")
    flags.path("translation", "File to score")
    flags.path("reference", "File of references")
    flags.group("Score")
    names = ", ".join(TOKENIZATIONS)
    flags.string("tokenize", f"Tokenisation of BLEU: {names}; none for tokenised text", "13a")
    flags.string(
        "convention",
        "Also compute BLEU from plain text by an old convention: tokenised or compound_split",
        "sacrebleu",
    )
    flags.string("language", "Code of the translations' language, for --convention")
    flags.switch("lowercase", "Ignore case")
    flags.group("Translations of each checkpoint")
    flags.path("translations_dir", "Directory of t2t-translate-all")
    flags.string("source", "Name of the source file, if --translations_dir has several")
    flags.path("event_dir", "Directory for curves and results; default: --translations_dir")
    define_polling(flags, "translations")


@command(define_flags)
def run(flags: Flags) -> None:
    """Scores and prints."""
    files = getattr(flags, "FILE REF ...")
    if files:
        _take_arguments(flags, files)
    more_references = [read_text(Path(path)) for path in files[2:]]
    require(flags, *([] if flags.translations_dir else ["translation"]), "reference")
    refuse_together(flags, {"translation": ["translations_dir"]})
    refuse_alone(flags, dict.fromkeys(_DIRECTORY_FLAGS, "translations_dir"))
    conventions = [] if flags.convention == "sacrebleu" else [flags.convention]
    if conventions and flags.tokenize == "none":
        raise UserError(
            f"--convention={flags.convention} needs plain text: leave --tokenize=none out.",
            code="conflicting_settings",
        )
    score = functools.partial(
        bleu,
        tokenize=flags.tokenize,
        lowercase=flags.lowercase,
        conventions=conventions,
        language=flags.language,
        more_references=more_references,
    )
    if not flags.translations_dir:
        print(score(read_text(flags.translation), read_text(flags.reference)))
        return
    from t2t_keras.evaluation.follow import score_all

    results = Path(flags.event_dir or flags.translations_dir) / RESULTS_FILE
    check_outputs([flags.reference], [], result_files=[results])
    score_all(
        flags.translations_dir,
        read_text(flags.reference),
        score,
        score.keywords,
        source=flags.source,
        event_dir=flags.event_dir,
        policy=poll_policy(flags),
        min_steps=flags.min_steps,
    )


def _take_arguments(flags: Flags, files: Sequence[str]) -> None:
    """Sets --translation and --reference from arguments, which exclude these flags."""
    conflicting = [f"--{name}" for name in _EXCLUDED_BY_ARGUMENTS if getattr(flags, name)]
    if conflicting or len(files) < 2:
        conflict = f" and {' and '.join(conflicting)}" if conflicting else ""
        raise UserError(
            f"Expected a file of translations and at least one file of references, or only "
            f"flags; got {' '.join(files)}{conflict}.",
            code="bad_arguments",
        )
    flags["translation"].value, flags["reference"].value = files[:2]


if __name__ == "__main__":
    run()
