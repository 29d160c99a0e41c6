"""Translates one text with every checkpoint of a run, each into its own file."""

import glob
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.file_job import translate_file, translation_settings
from t2t_keras.decoding.stored_model import unloaded_engine
from t2t_keras.decoding.translator import Translator
from t2t_keras.errors import UserError
from t2t_keras.io.files import (
    TEMPORARY_SUFFIX,
    as_json,
    check_outputs,
    differences,
    read_json,
    sha256_of,
    write_json,
)
from t2t_keras.text.files import check_readable
from t2t_keras.training.checkpoint_files import (
    NO_WAIT,
    PollPolicy,
    files_by_name_and_step,
    follow_run,
    identity,
)
from t2t_keras.training.checkpoints import load_weights
from t2t_keras.training.run_config import RunConfig


def translate_all(
    output_dir: str | Path,
    run_config: RunConfig,
    source: str | Path,
    output: str | Path,
    config: DecodeConfig,
    *,
    policy: PollPolicy = NO_WAIT,
    min_steps: int = 0,
    text: str = "",
    prefixes: str | Path = "",
    ensemble: Sequence[str] = (),
    forbidden: Sequence[str] = (),
    inputs: Sequence[str | Path] = (),
) -> None:
    """Translates a file with every checkpoint of a run, in the order of their steps.

    The translations of step N are in `<output>-N`, which appears when it is complete. Steps that
    have their file, or are below `min_steps`, are skipped. `<output>.json` records the settings,
    which all translations share. Prints each step, and at the end the skipped steps.

    Args:
      output_dir: folder of the run, whose files no output may replace.
      run_config: config of the run.
      source: see `translate_file`.
      output: name of the translations, without a step.
      config: decoding settings.
      policy: how long to wait for more checkpoints.
      min_steps: smallest step to translate with.
      text: name of the source in its scores; "" = name of the file.
      prefixes: see `translate_file`.
      ensemble: additional ensemble members for every checkpoint of the run.
      forbidden: words or phrases that no translation may contain.
      inputs: see `translate_file`.

    Raises:
      UserError: there is no checkpoint, a file cannot be read or must not be written, or existing
        translations were made from another source, by another run or with other settings.
    """
    output = Path(output)
    engine = unloaded_engine(run_config, config, ensemble, forbidden)
    translator = Translator(engine, run_config.vocabulary, config, forbidden, run_config.problem)
    inputs = [output_dir, *(Path(checkpoint).parent for checkpoint in ensemble), *inputs]
    text_files = [Path(path) for path in (source, prefixes) if path]
    settings_file = _checked_settings_file(output, text_files, inputs)
    provenance = {
        "problem": run_config.problem.name,
        "hparams_set": run_config.hparams_set,
        "random_seed": run_config.random_seed,
        "training_data": run_config.data,
        "source": sha256_of(Path(source)),
        "text": text,
        "ensemble": [identity(checkpoint) for checkpoint in ensemble],
        **translation_settings(translator, prefixes),
    }
    has_translations = any(output.parent.glob(f"{glob.escape(output.name)}-[0-9]*"))
    _write_or_compare(settings_file, provenance, has_translations)
    finished_files = files_by_name_and_step(output.parent).get(output.name, {})
    watcher = follow_run(output_dir, policy, min_steps, done=finished_files)
    if finished_files:
        print(f"{output}-*: {len(finished_files):,} already translated", flush=True)
    loaded_identity: dict[str, str] = {}

    def load(path: str) -> None:
        # Take the identity before the weights, as the checkpoint may be replaced meanwhile.
        loaded_identity.update(identity(path), checkpoint=Path(path).name)
        load_weights(translator.models[0], path)

    for step, path in watcher.load_each(load):
        print(f"{Path(path).name}: translating {source}", flush=True)
        origin = provenance | loaded_identity
        translate_file(translator, source, f"{output}-{step}", origin, prefixes, inputs=inputs)
    _report(output, watcher.skipped, f"of at least {min_steps:,} steps in {output_dir}")


def _checked_settings_file(
    output: Path, text_files: Sequence[Path], inputs: Sequence[str | Path]
) -> Path:
    """Returns the file of settings, after checking that all files can be read and written."""
    for file in text_files:
        check_readable(file)
    settings_file = output.with_name(f"{output.name}.json")
    check_outputs([*text_files, *inputs], [settings_file, f"{output}-<step>"])
    return settings_file


def _write_or_compare(path: Path, provenance: dict[str, Any], has_translations: bool) -> None:
    """Writes the settings; raises `UserError` if old translations had others."""
    if has_translations and path.exists():
        old_provenance = read_json(path, "Give another --translations_dir.")
        if mismatches := differences(old_provenance, as_json(provenance)):
            raise UserError(
                f"{path} records different settings: {'; '.join(mismatches)}. Give the same, or "
                f"another --translations_dir.",
                code="other_settings",
            )
    write_json(path, provenance)


def _report(output: Path, skipped: Iterable[int], description: str) -> None:
    """Prints the complete and incomplete translations; raises `UserError` if none is complete."""
    complete = files_by_name_and_step(output.parent).get(output.name, {})
    if not complete:
        raise UserError(
            f"There is no checkpoint {description} that could be loaded. Wait for one with "
            f"--wait_minutes.",
            code="no_checkpoint",
        )
    steps = ", ".join(f"step {step:,}" for step in sorted(skipped))
    print(f"{output}-*: {len(complete):,} translations" + f"; skipped: {steps}" * bool(steps))
    partial_name = re.compile(rf"{re.escape(output.name)}-\d+{re.escape(TEMPORARY_SUFFIX)}")
    for path in sorted(output.parent.iterdir()):
        if partial_name.fullmatch(path.name):
            print(f"{path} is incomplete.", flush=True)
