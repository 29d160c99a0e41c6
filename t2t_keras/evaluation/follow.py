"""Scores every checkpoint of a run, or its translations, as they appear."""

import dataclasses
import hashlib
import itertools
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from t2t_keras.data.dataset import Generated
from t2t_keras.data.problem import Score, make_problem
from t2t_keras.decoding.config import decode_config
from t2t_keras.decoding.file_job import first_hypotheses
from t2t_keras.decoding.translator import Translator, translate_and_score
from t2t_keras.errors import UserError
from t2t_keras.evaluation.results import (
    Result,
    append_result,
    read_results,
    run_result,
    score_fields,
)
from t2t_keras.io.files import RESULTS_FILE, check_outputs, locked_directory, read_json
from t2t_keras.io.terminal import printable
from t2t_keras.training.backends import base as backend
from t2t_keras.training.checkpoint_files import (
    NO_WAIT,
    CheckpointWatcher,
    PollPolicy,
    files_by_name_and_step,
    follow_run,
    wait_for,
)
from t2t_keras.training.checkpoints import load_weights
from t2t_keras.training.evaluation import SplitLoss
from t2t_keras.training.progress import make_curves
from t2t_keras.training.run_config import CHANGEABLE_ON_RESUME, RunConfig

if TYPE_CHECKING:
    from t2t_keras.metrics import TranslationScore  # Training needs no sacreBLEU.

_MAX_SAMPLE_WORDS = 20


def model_scorer(
    model: Any,
    config: RunConfig,
    generated: Generated,
    split: str,
    decode_hparams: str | Mapping[str, Any] = "",
) -> Callable[[], tuple[Score, list[tuple[str, str, str]]]]:
    """Returns a function that translates a split with the model's current weights and scores it.

    The function returns the problem's score, and a few examples of source, translation and
    reference, with the same sources at every call. For `decode_hparams` see `evaluate_all`.
    """
    decoding = decode_config(decode_hparams, config.problem.decoding_defaults)
    translator = Translator(model, config.vocabulary, decoding, problem=config.problem)
    sources, references = generated.text(split)
    candidates = [i for i, text in enumerate(sources) if 0 < len(text.split()) <= _MAX_SAMPLE_WORDS]
    # Evenly spread, as neighbours may come from the same text.
    sample = sorted({candidates[len(candidates) * n // 6] for n in (1, 3, 5)} if candidates else ())

    def score() -> tuple[Score, list[tuple[str, str, str]]]:
        score_of_split, lines = translate_and_score(translator, sources, references)
        return score_of_split, [
            (sources[index], lines[index], references[index]) for index in sample
        ]

    return score


def evaluate_all(
    output_dir: str | Path,
    config: RunConfig,
    generated: Generated,
    split: str = "dev",
    *,
    policy: PollPolicy = NO_WAIT,
    min_steps: int = 0,
    eval_bleu: bool = True,
    decode_hparams: str | Mapping[str, Any] = "",
    results_file: str | Path = "",
    worker_gpu: int | None = None,
) -> list[int]:
    """Scores every checkpoint of a run in the order of steps; returns the newly scored steps.

    Writes curves and results.jsonl to `<output_dir>/eval_<split>/`. Skips steps before `min_steps`,
    and steps that this results.jsonl already has with the same settings. Also adds all results,
    including earlier ones, to `results_file`; "" = none.

    With `eval_bleu`, translates the split ("dev" or "test") and computes the problem's score; else
    only the loss. `decode_hparams` are changes to the problem's decoding settings. `worker_gpu` is
    the number of GPUs; None = all visible ones, 0 = the CPU.

    Raises:
      UserError: there is no checkpoint, the problem has no such split, another process
        evaluates the same split, or a file cannot be written.
    """
    backend.check_backend()
    directory = Path(output_dir) / f"eval_{split}"
    files = _results_files(directory, results_file)
    check_outputs([output_dir, generated.directory], [], result_files=files)
    text = config.problem.text_name(split, len(generated.text(split)[1]))
    step = backend.make_step(config, backend.plan_devices(worker_gpu))
    loss = SplitLoss(step, config, generated, split)
    settings, score_model = {}, None
    if eval_bleu:
        settings = dataclasses.asdict(
            decode_config(decode_hparams, config.problem.decoding_defaults)
        )
        score_model = model_scorer(step.model, config, generated, split, decode_hparams)
    if loss.left_out:
        print(
            f"{loss.left_out:,} {split} pairs are longer than "
            f"max_length={config.hparams.max_length}: the score includes them, the loss does not."
        )

    def score_checkpoint(number: int, path: str) -> _ScoredStep:
        start = time.monotonic()
        scalars = loss.measure()
        score, _ = score_model() if score_model else (None, None)
        result = run_result(config, path, split, score, settings, text, scalars)
        points = scalars | (dict([score.main]) if score else {})
        values = ", ".join(f"{name} {value:.4g}" for name, value in points.items())
        report = f"{text or split} at step {number:,}: {values} ({time.monotonic() - start:.0f} s)"
        return result, points, f"{report}\n{score}" if score else report

    with locked_directory(directory, "t2t-eval"):
        template = run_result(config, output_dir, split, None, settings, text)
        earlier_steps = _copy_earlier_results(files, template)
        watcher = follow_run(output_dir, policy, min_steps, done=earlier_steps)
        checkpoints = watcher.load_each(lambda path: load_weights(step.model, path))
        scored = itertools.starmap(score_checkpoint, checkpoints)
        return _add_scores(files, earlier_steps, scored, f"checkpoint in {output_dir}")


def score_all(
    translations_dir: str | Path,
    references: Sequence[str],
    score: "Callable[[Sequence[str], Sequence[str]], TranslationScore]",
    score_settings: dict[str, object],
    *,
    source: str = "",
    event_dir: str | Path = "",
    policy: PollPolicy = NO_WAIT,
    min_steps: int = 0,
) -> list[int]:
    """Scores the files `<name>-<step>` of t2t-translate-all; returns the newly scored steps.

    Writes curves and results.jsonl to `event_dir`, by default the folder of the files. Skips steps
    before `min_steps`, and steps that the results already have with the same settings of
    translation, references and the `score_settings` of `score`. Scores the first hypothesis of each
    line. `source`, the translated file or its name, is needed if several files were translated.

    Raises:
      UserError: there are no translations, translations of several texts, or parses; a file cannot
        be read or written.
    """
    name = _name_of_text(translations_dir, Path(source).name, policy)
    translations = Path(translations_dir) / f"{name}-<step>"
    # t2t-translate-all writes this file before the first translation.
    path = Path(translations_dir) / f"{name}.json"
    provenance = read_json(path, "Translate again, or remove it.") if path.exists() else {}
    _refuse_raw_outputs(translations, str(provenance.get("problem", "")))
    text = printable(str(provenance.get("text", "")))
    inputs = {
        "references": "\n".join(references),
        "provenance": json.dumps(provenance, sort_keys=True),
    }
    digests = {
        part: hashlib.sha256(content.encode("utf-8")).hexdigest()
        for part, content in inputs.items()
    }
    template = Result("", "", printable(name), text=text, decode={**score_settings, **digests})

    def score_file(step: int, path: str) -> _ScoredStep:
        file_score = score(first_hypotheses(path, provenance), references)
        result = dataclasses.replace(template, steps=step, **score_fields(file_score))
        label = f"{path}, {text}" if text else path
        return result, {"bleu": file_score.bleu, "chrf": file_score.chrf}, f"{label}:\n{file_score}"

    files = _results_files(Path(event_dir or translations_dir))
    earlier_steps = _copy_earlier_results(files, template)
    watcher = CheckpointWatcher(
        lambda: files_by_name_and_step(translations_dir).get(name, {}),
        policy,
        noun="translation",
        min_steps=min_steps,
        done=earlier_steps,
    )
    scored = itertools.starmap(score_file, watcher)
    return _add_scores(files, earlier_steps, scored, f"translation {translations}")


def _name_of_text(directory: str | Path, name: str, policy: PollPolicy) -> str:
    """Returns the name of the only translated text; waits for its translations."""

    def find() -> list[str]:
        return sorted(text for text in files_by_name_and_step(directory) if text == (name or text))

    names = wait_for(find, policy, "translation")
    if not names:
        raise UserError(
            f"There are no translations <name>-<step> in --translations_dir={directory}. Make them "
            f"with t2t-translate-all, or wait for them with --wait_minutes.",
            code="no_translations",
        )
    if len(names) > 1:
        raise UserError(
            f"--translations_dir={directory} contains translations of {', '.join(names)}. Give "
            f"--source, the file that was translated.",
            code="ambiguous_files",
        )
    return names[0]


def _refuse_raw_outputs(files: Path, problem_name: str) -> None:
    """Raises `UserError` if BLEU of the outputs would be meaningless, as for parses."""
    try:
        problem = make_problem(problem_name)
    except UserError:
        # The files are from another program, or of a problem that --t2t_usr_dir would register.
        return
    if problem.postprocessed_suffix:
        raise UserError(
            f"{files} are raw outputs of {problem_name}, not text, so their BLEU would be "
            f"meaningless. {files}.{problem.postprocessed_suffix} has the postprocessed outputs. "
            f"Compute the problem's own score with t2t-eval, or score trees with t2t-evalb.",
            code="not_text",
        )


def _results_files(directory: Path, results_file: str | Path = "") -> list[Path]:
    """Returns the files to add results to: results.jsonl in a directory, and `results_file`."""
    files = [directory / RESULTS_FILE]
    if results_file and Path(results_file).resolve() != files[0].resolve():
        files.append(Path(results_file))
    return files


# A result, the points of its curves, and a report to print.
_ScoredStep = tuple[Result, Mapping[str, float], str]


def _copy_earlier_results(files: Sequence[Path], template: Result) -> set[int]:
    """Copies the first file's results like `template` to the other files; returns their steps."""
    results = [result for result in read_results(files[0]) if _key(result) == _key(template)]
    for file in files[1:]:
        recorded = read_results(file)
        for result in results:
            if result not in recorded:
                append_result(file, result)
    if results:
        num_steps = len({result.steps for result in results})
        print(f"{files[-1]}: {num_steps:,} already scored.", flush=True)
    return {result.steps for result in results if result.steps is not None}


def _add_scores(
    files: Sequence[Path], earlier_steps: set[int], scored: Iterable[_ScoredStep], noun: str
) -> list[int]:
    """Adds scores to files and curves and prints them, as they come; returns the steps."""
    directory, curves = files[0].parent, None
    steps: list[int] = []
    try:
        for result, points, report in scored:
            curves = curves or make_curves(directory.parent)
            # Curves first: a step whose result is missing is scored again.
            step = result.steps or 0
            curves.write(directory.name, step, dict(points))
            for file in files:
                append_result(file, result)
            print(printable(report), flush=True)
            steps.append(step)
    finally:
        if curves:
            curves.close()
    if not steps and not earlier_steps:
        raise UserError(
            f"There is no {noun} that could be scored. Wait for one with --wait_minutes.",
            code="nothing_to_score",
        )
    print(f"{files[-1]}: {len(steps) + len(earlier_steps):,} scored.", flush=True)
    return steps


def _key(result: Result) -> tuple:
    """Returns a key that results of the same text with the same settings share."""
    # A run may be continued with more steps.
    hparams = {
        name: value for name, value in result.hparams.items() if name not in CHANGEABLE_ON_RESUME
    }
    names = ("set", "problem", "split", "text", "random_seed", "decode")
    return hparams, *(getattr(result, name) for name in names)
