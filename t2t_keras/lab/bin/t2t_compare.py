r"""Compare translations of one text: scores, p-values, where the systems differ and how.

t2t-compare --reference=news.de --translations=base.de,new.de --source=news.en
t2t-compare --runs=runs/base,runs/student --split=test --format=html --output=student.html
t2t-compare --runs=runs/base,runs/student --source=news.en --reference=news.de

The first system is the baseline. A run without stored translations translates the text. p is the
probability that equally good systems differ at least this much, by sacreBLEU's tests.
"""

import json
import sys
from pathlib import Path

from t2t_keras.bin.flags import (
    command,
    define_common,
    given_flags,
    refuse_alone,
    refuse_together,
    require,
)
from t2t_keras.errors import UserError
from t2t_keras.io.files import check_not_stream, check_outputs, check_parent, write_atomically
from t2t_keras.io.flags import HIDDEN, Flags
from t2t_keras.io.terminal import printable, product
from t2t_keras.lab.comparison.comparison import as_json, compare
from t2t_keras.lab.comparison.report import comparison_page, text_report
from t2t_keras.lab.comparison.scores import (
    DEFAULT_METRICS,
    TESTS,
    CometModel,
    Significance,
    check_metrics,
)
from t2t_keras.lab.comparison.systems import read_files, read_runs
from t2t_keras.metrics import TOKENIZATIONS
from t2t_keras.text.files import check_readable

_FLAGS_OF_FILES = ("reference", "translations", "source")
_FLAGS_OF_RUNS = ("split", "data_dir", "decode_hparams", "problem_config")
_FORMATTERS = {
    "text": lambda comparison: printable(text_report(comparison)),
    "json": lambda comparison: json.dumps(as_json(comparison), indent=2, ensure_ascii=False),
    "html": comparison_page,
}


def define_flags(flags: Flags) -> None:
    """Adds the flags of the command."""
    flags.group("Compare files")
    flags.path("reference", "File of reference translations, one per line")
    flags.paths("translations", "Files of translations; the first is of the baseline")
    flags.path("source", "File of source sentences, for the report; COMET needs it")
    flags.group("Compare runs, on --split or on --source and --reference")
    flags.paths("runs", "Directories of runs or CTranslate2 exports; the first is the baseline")
    flags.choice(
        "split", "Set of the runs' problem to compare on, without --source", ("dev", "test"), "dev"
    )
    define_common(flags, "data_dir", "decode_hparams")
    flags.group("Scores and tests")
    flags.strings(
        "names", "Names of the systems in the report, separated by commas; default: from the paths"
    )
    flags.strings("metrics", "bleu, chrf, chrf++, ter, or registered ones; default: bleu,chrf,ter")
    names = ", ".join(TOKENIZATIONS)
    flags.string("tokenize", f"Tokenisation of BLEU: {names}; default: the problem's, or 13a")
    flags.switch("lowercase", "Ignore case; TER always ignores it")
    flags.choice("significance", "Significance test (paired)", tuple(TESTS), "bootstrap")
    flags.integer(
        "samples", "Number of samples; default: 1000, or 10000 with randomization", minimum=1
    )
    flags.integer("seed", "Seed of the test; default: $SACREBLEU_SEED, or 12345", minimum=1)
    flags.path(
        "training_text", "Text to count words in, for scores by frequency; default: --reference"
    )
    flags.path("comet_model", "Directory or checkpoint of a downloaded COMET model; adds its score")
    flags.path(
        "comet_python", "Python interpreter that has unbabel-comet; default: the running one"
    )
    flags.group("Output")
    flags.choice("format", "Format of the report", tuple(_FORMATTERS), "text")
    flags.path("output", "File for the report; default: standard output")
    flags.group(HIDDEN)
    help_text = "Settings of the test set, such as newstest2014=filtered; all others are the runs'"
    define_common(flags, problem_config=help_text)


@command(define_flags)
def run(flags: Flags) -> None:
    """Compares as the flags say."""
    _check_combination(flags)
    files = flags.reference, flags.source, flags.training_text
    inputs = [*filter(None, files), *(flags.translations or ()), *(flags.runs or ())]
    if flags.output:
        check_not_stream(flags.output, "--output is written atomically")
        check_outputs(inputs, [flags.output])
        check_parent(Path(flags.output))
    if flags.training_text:
        check_readable(Path(flags.training_text))
    comet = CometModel(flags.comet_model, flags.comet_python) if flags.comet_model else None
    metrics, tokenize = flags.metrics or DEFAULT_METRICS, flags.tokenize
    # Check before a run translates; runs always have sources.
    check_metrics(metrics, tokenize or "13a", comet, bool(flags.source or flags.runs))
    significance = Significance(flags.significance, flags.samples or 0, flags.seed)
    if flags.runs:
        settings = {name: getattr(flags, name) for name in (*_FLAGS_OF_RUNS, "source", "reference")}
        settings |= {"names": flags.names or (), "translations": flags.translations or ()}
        text = read_runs(flags.runs, **settings)
    else:
        text = read_files(flags.reference, flags.translations, flags.source, flags.names or ())
    comparison = compare(
        text,
        metrics,
        tokenize=tokenize,
        lowercase=flags.lowercase,
        significance=significance,
        comet=comet,
        training_text=flags.training_text,
    )
    content = _FORMATTERS[flags.format](comparison)
    if not flags.output:
        print(content, file=sys.stdout if flags.format == "text" else product())
        return
    write_atomically(Path(flags.output), f"{content}\n".encode(errors="backslashreplace"))
    print(f"{flags.output}: {', '.join(printable(system.name) for system in text.systems)}")


def _check_combination(flags: Flags) -> None:
    """Raises `UserError` if a required flag is missing, or given flags exclude each other."""
    flags_of_files = given_flags(flags, *_FLAGS_OF_FILES)
    refuse_alone(flags, {"comet_python": "comet_model"})
    if flags.runs:
        if flags_of_files:
            require(flags, "source", "reference")
            refuse_together(flags, {"source": ("split", "data_dir")})
        return
    refuse_alone(flags, dict.fromkeys(_FLAGS_OF_RUNS, "runs"))
    if not flags_of_files:
        raise UserError(
            "Please give --reference and --translations, or --runs.", code="missing_flags"
        )
    require(flags, "reference", "translations")


if __name__ == "__main__":
    run()
