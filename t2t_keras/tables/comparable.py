"""Which results may stand beside the paper's: those that were made as the paper's were."""

from collections.abc import Sequence

from t2t_keras import registry
from t2t_keras.decoding.config import decode_config
from t2t_keras.tables.paper import NEWSTEST_LINES
from t2t_keras.tables.results import Result

# What says how something is computed, or where it comes from, and not what it is.
_HOW_A_STEP = {"microbatch_tokens", "recompute", "compute_dtype"}
_HOW_A_TEXT = {"text_source"}
_HOW_A_SEARCH = {
    "batch_tokens",
    "batches_at_once",
    "lines_at_once",
    "return_beams",
    "write_beam_scores",
    "xla",
}


def newest_result(
    results: Sequence[Result],
    hparams_set: str | None,
    split: str,
    problem: str = "",
    *,
    score: str = "bleu",
    averaged: int | None = None,
) -> Result | None:
    """Returns the last result that may stand beside the paper's, or None.

    That is one of an unchanged set on an unchanged problem, of the whole text that the paper
    scored, by one model with the problem's own decoding settings.

    Args:
      results: in the order of the file.
      hparams_set: name of the set; what changes only how it is computed may differ.
      split: "dev" or "test".
      problem: name of the problem; "" = any.
      score: which score it must have: "bleu", "perplexity", or "f1".
      averaged: of how many checkpoints its weights must be the mean; None = of any number.
    """
    found = [
        result
        for result in results
        if (result.set, result.split) == (hparams_set, split)
        and result.problem == (problem or result.problem)
        and getattr(result, score) is not None
        and averaged in (None, result.averaged)
        and not set(result.hparams) - _HOW_A_STEP
        and _is_of_the_paper_s_text(result)
        # Perplexity is of the references: nothing is decoded for it.
        and (score == "perplexity" or _is_decoded_as_usual(result))
    ]
    return found[-1] if found else None


def _is_of_the_paper_s_text(result: Result) -> bool:
    problem = registry.problem(result.problem)
    usual = problem.config()
    unchanged = all(
        value == usual.get(name)
        for name, value in result.problem_config.items()
        if name not in _HOW_A_TEXT
    )
    # Its edition, and whether a line is missing, is in the name.
    lines = NEWSTEST_LINES[result.split]
    return unchanged and result.text == problem.text_name(result.split, lines)


def _is_decoded_as_usual(result: Result) -> bool:
    usual = vars(decode_config(defaults=registry.problem(result.problem).decoding))
    return result.is_of_the_model_alone and all(
        # A setting that an older line does not have yet was not there to be changed.
        result.decode.get(name, value) == value
        for name, value in usual.items()
        if name not in _HOW_A_SEARCH
    )
