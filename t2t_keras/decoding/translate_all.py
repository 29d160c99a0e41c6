"""Translation of one text by every checkpoint of a run, each into a file of its own."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from t2t_keras.data.atomic_file import TEMPORARY_SUFFIX, make_parent, sha256_of, write_atomically
from t2t_keras.data.text_files import check_readable
from t2t_keras.decoding.files import translate_file
from t2t_keras.decoding.resumable_output import differences
from t2t_keras.decoding.trained_model import identity
from t2t_keras.decoding.translator import Translator
from t2t_keras.errors import UserError
from t2t_keras.training.checkpoints import load_weights
from t2t_keras.training.followed_run import follow_run
from t2t_keras.training.following import NO_WAIT, Patience, files_by_name_and_step
from t2t_keras.training.run_record import RunRecord


def translate_all(
    output_dir: str | Path,
    record: RunRecord,
    translator: Translator,
    source: str | Path,
    output: str | Path,
    *,
    patience: Patience = NO_WAIT,
    min_steps: int = 0,
    text: str = "",
    prefixes: str | Path | None = None,
    ensemble: tuple[str, ...] = (),
) -> list[Path]:
    """Translates a file with every checkpoint of a run, in the order of their steps.

    The translations of step N are in `<output>-N`, which appears when it is complete; a step whose
    file is there is not translated again. `<output>.json` tells what they are made by. Prints what
    it does, and at last what was skipped.

    Args:
      output_dir: the run.
      record: its record.
      translator: from `Translator.from_record`; its first model gets each checkpoint's weights.
      source: UTF-8 text, a sentence a line.
      output: what the names of the files begin with.
      patience: how long to wait for further checkpoints.
      min_steps: earlier checkpoints are left alone.
      text: what the source is called where its score is told; "" = by the name of the files.
      prefixes: a file with a line for each of the source's: how its translation must begin.
      ensemble: path prefixes of the checkpoints that translate besides, as
        `Translator.from_record` was told.

    Returns:
      The complete files, by step; also those that were there before.

    Raises:
      UserError: there is no checkpoint, a file cannot be read or written, or the translations that
        are there were made of another source, by another run or with other settings.
    """
    output = Path(output)
    for file in (source, prefixes):
        if file:
            check_readable(Path(file))
    made_by = _made_by(record, translator, source, text, prefixes, ensemble)
    _check_the_same(output, made_by)
    before = _translations(output)
    follower = follow_run(output_dir, patience, min_steps, done=before)
    if before:
        print(f"{output}-*: {_count(before)} of earlier are complete.", flush=True)
    loaded = {}

    def load(path: str) -> None:
        # Before it is read: it may be removed, or written anew, as soon as it was.
        loaded.update(identity(path), checkpoint=Path(path).name)
        load_weights(translator.models[0], path)

    for step, path in follower.loaded(load):
        print(f"{Path(path).name}: translating {source}", flush=True)
        translate_file(translator, source, f"{output}-{step}", {**made_by, **loaded}, prefixes)
    return _summary(output_dir, output, min_steps, follower.skipped)


def _made_by(
    record: RunRecord,
    translator: Translator,
    source: str | Path,
    text: str,
    prefixes: str | Path | None,
    ensemble: Sequence[str],
) -> dict[str, Any]:
    """Returns what all translations are made by, besides the checkpoint of each."""
    return {
        "problem": record.problem.name,
        "hparams_set": record.hparams_set,
        "random_seed": record.random_seed,
        "training_data": record.data,
        "source": sha256_of(Path(source)),
        "text": text,
        "prefixes": sha256_of(Path(prefixes)) if prefixes else "",
        "ensemble": [identity(checkpoint) for checkpoint in ensemble],
        "forbidden": list(translator.forbidden),
        **dataclasses.asdict(translator.config),
    }


def _check_the_same(output: Path, made_by: Mapping[str, Any]) -> None:
    """Writes what the translations are made by; raises `UserError` where it was something else."""
    path = output.with_name(f"{output.name}.json")
    made_by = json.loads(json.dumps(made_by))
    make_parent(path)
    if path.exists():
        try:
            different = differences(json.loads(path.read_bytes()), made_by)
        except (OSError, ValueError, AttributeError) as error:
            raise UserError(
                f"{path} cannot be read ({error}). Give another --translations_dir."
            ) from error
        if different:
            raise UserError(
                f"The translations {output}-* were made otherwise: {'; '.join(different)}. Give "
                f"another --translations_dir, or what they were made by."
            )
    write_atomically(path, (json.dumps(made_by, indent=2) + "\n").encode("utf-8"))


def _summary(
    output_dir: str | Path, output: Path, min_steps: int, skipped: Mapping[int, str]
) -> list[Path]:
    complete = _translations(output)
    if not complete:
        at_least = f" of at least {min_steps:,} steps" * bool(min_steps)
        raise UserError(
            f"There is no checkpoint{at_least} in {output_dir} that could be translated with. "
            f"--wait_minutes waits for one."
        )
    text = f"{output}-*: {_count(complete)}"
    if skipped:
        text += f"; skipped: {', '.join(f'step {step:,}' for step in sorted(skipped))}"
    print(text, flush=True)
    for partial in sorted(output.parent.glob(f"{output.name}-*{TEMPORARY_SUFFIX}")):
        print(f"{partial} was begun by an earlier job, and its checkpoint is gone.", flush=True)
    return [Path(complete[step]) for step in sorted(complete)]


def _translations(output: Path) -> dict[int, str]:
    return files_by_name_and_step(output.parent).get(output.name, {})


def _count(translations: Mapping[int, str]) -> str:
    return f"{len(translations):,} translation{'s' * (len(translations) != 1)}"
