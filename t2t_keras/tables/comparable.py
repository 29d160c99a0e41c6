"""Which results may stand beside the paper's: those that were made as the paper's were."""

from collections.abc import Sequence

from t2t_keras.data.problem import make_problem
from t2t_keras.decoding.config import decode_config
from t2t_keras.evaluation.results import Result

# Section 6.1: newstest2013 and newstest2014, the latter in its full edition.
_LINES = {"dev": 3000, "test": 3003}
# Settings that change how something is computed, or where it comes from, but not the result.
_FREE_HPARAMS = {"microbatch_tokens", "recompute", "compute_dtype"}
_FREE_SETTINGS = {  # of a problem and of decoding
    *("text_source", "batch_tokens", "batches_at_once", "lines_at_once"),
    *("xla", "xla_for_one", "return_beams", "write_beam_scores"),
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
    """Returns the last result with a "bleu", "perplexity" or "f1" to compare with the paper's.

    That is one of an unchanged set on an unchanged problem ("" = any), of the whole text that the
    paper scored, by one model with the problem's own decoding settings. Its weights must be the
    mean of `averaged` checkpoints; None = any number.
    """
    comparable = (
        result
        for result in reversed(results)
        if (result.set, result.split) == (hparams_set, split)
        and result.problem == (problem or result.problem)
        and getattr(result, score) is not None
        and averaged in (None, result.averaged)
        and not result.hparams.keys() - _FREE_HPARAMS
        and _is_of_papers_text(result)
        # Perplexity is of the references: nothing is decoded for it.
        and (score == "perplexity" or _is_decoded_as_usual(result))
    )
    return next(comparable, None)


def _is_of_papers_text(result: Result) -> bool:
    problem = make_problem(result.problem)
    # The name tells the edition, and whether lines are missing.
    is_whole = result.text == problem.text_name(result.split, _LINES[result.split])
    return is_whole and _agree(result.problem_config, problem.config())


def _is_decoded_as_usual(result: Result) -> bool:
    usual = vars(decode_config(defaults=make_problem(result.problem).decoding))
    # A setting that an older line does not have yet was not there to be changed.
    found = {name: value for name, value in result.decode.items() if name in usual}
    return result.is_of_the_model_alone and _agree(found, usual)


def _agree(found: dict, usual: dict) -> bool:
    return all(usual.get(name) == found[name] for name in found.keys() - _FREE_SETTINGS)
