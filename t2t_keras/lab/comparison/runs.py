"""The translations that runs have of their dev or test set; a run that has none translates it."""

import contextlib
import dataclasses
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from t2t_keras.data.dataset import open_generated
from t2t_keras.decoding.config import DecodeConfig, decode_config
from t2t_keras.decoding.engine import KERAS
from t2t_keras.decoding.file_job import (
    decodes_name,
    first_hypotheses,
    translate_file,
)
from t2t_keras.decoding.line_job import stated_of
from t2t_keras.decoding.lines import line_stages, stage_settings
from t2t_keras.decoding.stored_model import StoredModel, stored_model
from t2t_keras.errors import UserError
from t2t_keras.io.files import as_json, is_stream, not_a_run, read_json, sha256_of
from t2t_keras.lab.comparison.systems import System, TranslatedText, system_names
from t2t_keras.text.files import read_text
from t2t_keras.training.checkpoint_files import step_of
from t2t_keras.training.cost import TrainingCost, read_cost
from t2t_keras.training.run_config import RunConfig, merge_flags

_ADVICE = "Remove it."


class _Run(NamedTuple):
    """A run, or an export for another engine, with what it translates."""

    path: Path
    record: RunConfig  # With the test set that was asked for.
    stored: StoredModel
    config: DecodeConfig

    @property
    def engine(self) -> str:
        """Of another engine than Keras's the name, with its type; else ""."""
        return "" if self.stored.name == KERAS else self.stored.name

    @property
    def written(self) -> float:
        """When its weights were, in seconds."""
        return max(file.stat().st_mtime for file in self.stored.files())


def read_runs(
    runs: Sequence[str | Path],
    split: str = "dev",
    *,
    data_dir: str | Path = "",
    problem_config: Mapping[str, Any] | None = None,
    decode_hparams: str | Mapping[str, Any] = "",
    names: Sequence[str] = (),
    source: str | Path = "",
    reference: str | Path = "",
    translations: Sequence[str | Path] = (),
) -> TranslatedText:
    """Returns what runs make of a text, or of the dev or test set that they share.

    Translations of a run's newest checkpoint are taken from where t2t-decoder and t2t-translate-all
    store them; where there are none of this text, the run translates, and stores them as
    t2t-decoder does. A run may also be the folder of an export for CTranslate2.

    Args:
      runs: their folders; the first is the baseline.
      split: which set, "dev" or "test".
      data_dir: directory of the generated data; "" = as each run records it.
      problem_config: settings of the test set that differ from the runs'.
      decode_hparams: decoding settings that differ from those of the runs' problems.
      names: of the systems; by default from the paths.
      source: file of another text to translate; "" = the set.
      reference: file of its reference.
      translations: files of more systems' translations of it, which come after the runs.

    Raises:
      UserError: there is no such run, checkpoint or set, the sets differ, the problem is none of
        translation, or a file cannot be read.
    """
    if len(runs) + len(translations) < 2:
        raise UserError(
            f"Expected at least two runs to compare, the first of them the baseline; got "
            f"{', '.join(map(str, runs))}.",
            code="too_few",
        )
    names = system_names([*runs, *translations], names)
    for path in (source, reference):
        if path and is_stream(path):
            raise UserError(
                f"The text must be in regular files, got {path}: each run reads it.",
                code="not_a_file",
            )
    opened, texts = [], []
    for path in runs:
        run = _opened(Path(path), problem_config, decode_hparams)
        opened.append(run)
        if source:
            texts.append((Path(source), Path(reference)))
        else:
            generated = open_generated(run.record.problem, data_dir or run.record.data_dir, True)
            texts.append(generated.text_paths(split))
    references = read_text(texts[0][1])
    for run, (_, reference) in zip(opened, texts, strict=True):
        _check_same(references, read_text(reference), opened[0].path, run.path, split)
    # Checked before a run translates: as if each had written the references.
    written = [references] * len(runs) + [read_text(Path(path)) for path in translations]
    files = map(str, (*runs, *translations))
    systems = list(map(System, names, written, files))
    first, reference = texts[0]
    found = TranslatedText(
        systems,
        references,
        str(reference),
        read_text(first),
        str(first),
        opened[0].record.problem.tokenize,
    )
    # Of the same name, other texts have other checksums.
    own = f"{Path(source).name}.{sha256_of(Path(source))[:8]}" if source else ""
    for number, (run, (text, _)) in enumerate(zip(opened, texts, strict=True)):
        text_name = own or f"{run.record.problem.name}.{split}"
        systems[number] = _system(names[number], run, text_name, text)
    return dataclasses.replace(found, systems=systems)


def _opened(
    path: Path, problem_config: Mapping[str, Any] | None, decode_hparams: str | Mapping[str, Any]
) -> _Run:
    stored = stored_model(path)
    if not stored:
        raise UserError(
            f"There is neither a run nor an export for another engine in {path}. {not_a_run(path)}",
            code="no_run",
        )
    record = _with_test_set(stored.record, problem_config, path)
    return _Run(path, record, stored, decode_config(decode_hparams, stored.defaults))


def _with_test_set(
    record: RunConfig, problem_config: Mapping[str, Any] | None, path: Path
) -> RunConfig:
    if problem_config:
        requested = merge_flags(record, {"problem_config": problem_config})
        record.check_unchanged(requested, path)
        record = dataclasses.replace(record, problem=requested.problem)
    if record.problem.postprocessed_suffix:
        raise UserError(
            f"{path} is a run of {record.problem.name}, whose outputs are no translations: "
            f"t2t-evalb scores trees.",
            code="not_text",
        )
    return record


def _check_same(
    first: Sequence[str], other: Sequence[str], first_run: Path, run: Path, split: str
) -> None:
    if first == other:
        return
    where = f"{len(first):,} and {len(other):,} lines"
    if len(first) == len(other):
        line = next(
            n for n, pair in enumerate(zip(first, other, strict=True), 1) if len({*pair}) > 1
        )
        where = f"line {line:,} differs"
    raise UserError(
        f"The references of the {split} set of {run} are not those of {first_run}: {where}. Only "
        f"translations of one text can be compared; --data_dir names the data of all runs.",
        code="other_text",
    )


def _system(name: str, run: _Run, text: str, source: Path) -> System:
    output = run.path / "decodes" / decodes_name(text, run.config, run.engine)
    stored, cost = _stored(run, text, source, output), _training_cost(run)
    if stored is None:
        _translate(run, source, output)
        stored = output
    stated = stated_of(stored)
    return System(
        name,
        first_hypotheses(stored, dataclasses.asdict(run.config)),
        str(stored),
        cost.seconds if cost else None,
        cost.hardware if cost else "",
        stated.get("seconds"),
        stated.get("hardware", "") if stated.get("seconds") else "",
        sum(file.stat().st_size for file in run.stored.files()) / 1e6,
    )


def _stored(run: _Run, text: str, source: Path, output: Path) -> Path | None:
    """Returns the file that has the newest checkpoint's translations with these settings."""
    stages = stage_settings(line_stages(run.config, run.record.problem))
    wanted = as_json(dataclasses.asdict(run.config) | {"stages": stages, "prefixes": ""})
    wanted |= {"ensemble": [], "forbidden": [], "source": sha256_of(source)}
    stated = stated_of(output)
    is_own = _of_checkpoint(stated, run) and output.stat().st_mtime >= run.written
    if is_own and stated.items() >= wanted.items():
        return output
    step = step_of((run.stored.checkpoint or {}).get("checkpoint", ""))
    settings, found = (run.path / "translations" / f"{text}{end}" for end in (".json", f"-{step}"))
    if run.engine or not (settings.is_file() and found.is_file()):
        return None
    is_newest = found.stat().st_mtime >= run.written
    return found if is_newest and read_json(settings, _ADVICE).items() >= wanted.items() else None


def _of_checkpoint(stated: Mapping[str, Any], run: _Run) -> bool:
    """Returns whether translations are of the run's checkpoint, wherever the run is by now."""
    identities = stated, run.stored.checkpoint or {}
    one, other = (
        (Path(each.get("checkpoint", "")).name, each.get("digest")) for each in identities
    )
    return one == other and stated.get("engine", "") == run.engine


def _translate(run: _Run, source: Path, output: Path) -> None:
    """Translates as t2t-decoder does."""
    from t2t_keras.decoding.translator import Translator

    print(f"{run.path} has no translations of {source}: translating.", file=sys.stderr, flush=True)
    run.stored.share_cores(run.config)
    translator = Translator.from_stored(run.stored, run.config)
    provenance = run.stored.provenance()
    with contextlib.redirect_stdout(sys.stderr):  # The report is what standard output is for.
        translate_file(translator, source, output, provenance, reads=[run.path], states=True)


def _training_cost(run: _Run) -> TrainingCost | None:
    """Returns what training took up to the checkpoint, None where it is not recorded."""
    checkpoint = run.stored.checkpoint
    return read_cost(checkpoint["checkpoint"]) if checkpoint else None
