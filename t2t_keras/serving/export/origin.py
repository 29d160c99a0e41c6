"""Lines for an export's README: its run, its recorded scores, and its score on the dev set."""

import dataclasses
from pathlib import Path

from t2t_keras.data.dataset import open_generated
from t2t_keras.decoding.translation import one_line
from t2t_keras.decoding.translator import Translator, translated_score
from t2t_keras.errors import UserError
from t2t_keras.evaluation.results import Result, read_results
from t2t_keras.evaluation.run_result import checkpoint_checksum, run_result
from t2t_keras.io.terminal import printable
from t2t_keras.serving.export.weights import rounded_weights
from t2t_keras.training.checkpoints.names import step_of
from t2t_keras.training.run_config import RunConfig


def run_lines(run: RunConfig, checkpoint: str | Path) -> list[str]:
    """Returns lines that say what was trained, on what and for how long."""
    return [
        f"problem: {run.problem.name}",
        f"hyperparameter set: {run.hparams_set}",
        f"optimizer steps: {step_of(checkpoint) or 'not known'}",
        f"training data, SHA-256: {run.data}",
    ]


def recorded_scores(run: RunConfig, checkpoint: str | Path, path: str | Path) -> list[str]:
    """Returns a line for each score of the checkpoint in a file of results, if there is one.

    Prints how many scores of the same problem, set and step are left out: another run may have them
    too, and an average has the step of its newest source.
    """
    requested = run.problem.name, run.hparams_set, step_of(checkpoint)
    alike = [
        each
        for each in read_results(path)
        if (each.problem, each.set, each.steps) == requested and _main_score(each)
    ]
    checksum = checkpoint_checksum(checkpoint)
    found = [each for each in alike if each.checkpoint == checksum and each.is_of_the_model_alone]
    if left_out := len(alike) - len(found):
        print(
            f"{path}: {left_out:,} scores of the same set and step are left out: of other or "
            f"unnamed weights, or with another engine, an ensemble, forbidden words, a glossary or "
            f"prefixes.",
            flush=True,
        )
    return list(map(_score_line, found))


def _score_line(result: Result) -> str:
    """Returns a score with what it depends on: the search, and sacrebleu's settings."""
    metric, score = _main_score(result)
    conditions, decode = [], result.decode
    if decode.get("samples"):
        conditions.append(f"sampled, seed {decode.get('seed')}")
    elif "beam_size" in decode and "alpha" in decode:
        conditions.append(f"beam {decode['beam_size']}, alpha {decode['alpha']}")
    if result.bleu_signature:
        conditions.append(f"sacrebleu {result.bleu_signature}")
    line = f"{result.text or result.split}: {score:.2f} {metric}"
    if conditions:
        line += f" ({'; '.join(conditions)})"
    for convention, each in result.conventions.items():
        line += f", {each['bleu']:.2f} BLEU ({convention} {each['signature']})"
    # Whoever wrote the file of results may have put anything there.
    return printable(one_line(line))


def _main_score(result: Result) -> tuple[str, float] | None:
    scores = {**result.main, "bleu": result.bleu, "f1": result.f1}
    return next(((name.upper(), each) for name, each in scores.items() if each is not None), None)


def dev_text(run: RunConfig, data_dir: str) -> tuple[list[str], list[str]] | None:
    """Returns sources and references of the dev set; None if the run's own data is not here.

    On another machine it may be missing; a `UserError` is raised if there is none in `data_dir`.
    """
    if not (data_dir or run.data_dir):
        return None
    try:
        return open_generated(run.problem, data_dir or run.data_dir).text("dev")
    except UserError:
        if data_dir:
            raise
        return None


def measured_score(
    translator: Translator,
    run: RunConfig,
    checkpoint: str | Path,
    dtype: str,
    text: tuple[list[str], list[str]],
) -> str:
    """Translates a dev set, sources and references, and returns a line with its score.

    Unless weights are stored as float32, the score with exact weights is measured as well.
    """
    name = run.problem.text_name("dev", len(text[1]))
    decode = dataclasses.asdict(translator.config)

    def measure() -> Result:
        score, _ = translated_score(translator, *text)
        return run_result(run, checkpoint, "dev", score, decode, text=name)

    exact = measure()
    if dtype == "float32":
        return _score_line(exact)
    with rounded_weights(translator, dtype):
        rounded = measure()
    (metric, score), (_, other) = _main_score(rounded), _main_score(exact)
    return (
        f"{_score_line(rounded)}, with weights as {dtype}; {other:.2f} {metric} with exact weights "
        f"({score - other:+.2f})"
    )
