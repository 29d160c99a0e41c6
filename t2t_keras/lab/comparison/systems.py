"""The systems to compare: translations of one text, read from files or made by runs."""

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
from t2t_keras.decoding.line_job import read_manifest
from t2t_keras.decoding.lines import line_stages, stage_settings
from t2t_keras.decoding.stored_model import StoredModel, stored_model
from t2t_keras.decoding.translator import Translator
from t2t_keras.errors import UserError
from t2t_keras.io.files import as_json, check_not_stream, not_a_run, read_json, sha256_of
from t2t_keras.text.files import check_same_lines, is_blank, read_text
from t2t_keras.training.checkpoint_files import step_of
from t2t_keras.training.cost import read_cost
from t2t_keras.training.run_config import RunConfig, merge_flags


@dataclasses.dataclass(frozen=True)
class System:
    """One system's translations, with its costs.

    Attributes:
      name: distinguishes it from the other systems.
      translations: one for each line.
      file: path of the translations.
      training_seconds: duration of its training; None = unknown, here and below.
      training_hardware: hardware of its training; "" = unknown.
      decoding_seconds: time to translate the text, after loading the model.
      decoding_hardware: hardware of its decoding; "" = unknown.
      megabytes: size of its checkpoint, or of the export that translated, in 10^6 bytes.
    """

    name: str
    translations: Sequence[str]
    file: str
    training_seconds: float | None = None
    training_hardware: str = ""
    decoding_seconds: float | None = None
    decoding_hardware: str = ""
    megabytes: float | None = None


@dataclasses.dataclass(frozen=True)
class TranslatedText:
    """A text with its reference and several systems' translations, line by line.

    Raises `UserError` if the text has no lines, if files have different numbers of lines, or if two
    systems have the same name.

    Attributes:
      systems: the systems; the first is the baseline.
      references: one for each line.
      reference_file: path of the references.
      sources: one for each line; () = unknown.
      source_file: path of the sources; "" = unknown.
      tokenize: sacreBLEU's tokenisation for this text.
    """

    systems: Sequence[System]
    references: Sequence[str]
    reference_file: str
    sources: Sequence[str] = ()
    source_file: str = ""
    tokenize: str = "13a"

    def __post_init__(self) -> None:
        names = [system.name for system in self.systems]
        if duplicates := {name for name in names if names.count(name) > 1}:
            raise UserError(
                f"Each system needs its own name, but {min(duplicates)!a} is given twice. Set "
                f"names with --names.",
                code="given_twice",
            )
        counts = [(self.reference_file, len(self.references))]
        counts += [(self.source_file, len(self.sources))] * bool(self.source_file)
        counts += [(system.file, len(system.translations)) for system in self.systems]
        for file, count in counts:
            if not count:
                raise UserError(
                    f"{file} is empty: expected a line for each sentence.", code="no_text"
                )
        if all(map(is_blank, self.references)):
            raise UserError(
                f"{self.reference_file} has only blank lines: expected references.",
                code="blank",
            )
        check_same_lines(dict(counts))


def read_files(
    reference: str | Path,
    translations: Sequence[str | Path],
    source: str | Path = "",
    names: Sequence[str] = (),
) -> TranslatedText:
    """Reads a text and its translations from files; the first translations are the baseline's.

    Raises:
      UserError: a file cannot be read or is not UTF-8, or see `TranslatedText`.
    """
    names = system_names(translations, names)
    systems = [
        System(name, read_text(Path(path)), str(path))
        for name, path in zip(names, translations, strict=True)
    ]
    sources = read_text(Path(source)) if source else ()
    return TranslatedText(systems, read_text(Path(reference)), str(reference), sources, str(source))


def system_names(paths: Sequence[str | Path], names: Sequence[str] = ()) -> list[str]:
    """Returns a name for each path; by default, the shortest path endings that all differ.

    Raises:
      UserError: there are fewer than two paths, or the numbers of names and paths differ.
    """
    if len(paths) < 2:
        raise UserError(
            f"Expected at least two systems to compare, the baseline first; got "
            f"{', '.join(map(str, paths))}.",
            code="too_few",
        )
    if names and len(names) != len(paths):
        raise UserError(
            f"Expected {len(paths)} names, one for each system, got {len(names)}: "
            f"{', '.join(names)}.",
            code="bad_arguments",
        )
    if names:
        return list(names)
    parts = [Path(path).parts or Path(path).absolute().parts for path in paths]
    for count in range(1, max(map(len, parts), default=0)):
        short_names = ["/".join(path_parts[-count:]) for path_parts in parts]
        if len(set(short_names)) == len(short_names):
            return short_names
    return list(map(str, paths))


_ADVICE = "Remove it."


class _Run(NamedTuple):
    """A run, or an export for another engine, and the decoding settings."""

    path: Path
    config: RunConfig  # With the requested test set.
    model: StoredModel
    decoding: DecodeConfig

    @property
    def engine(self) -> str:
        """Name of the engine with its type; "" = Keras's."""
        return "" if self.model.name == KERAS else self.model.name

    @property
    def modified_at(self) -> float:
        """Time when the weights were written, in seconds since 1970."""
        return max(file.stat().st_mtime for file in self.model.files())


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
    """Returns runs' translations of a text, or of the dev or test set that they share.

    Uses the newest checkpoint's translations if t2t-decoder or t2t-translate-all has stored them.
    Otherwise the run translates, and stores the translations like t2t-decoder. A run may also be
    an export for CTranslate2.

    Args:
      runs: folders of runs or exports; the first is the baseline.
      split: the set to compare on, "dev" or "test".
      data_dir: directory of the generated data; "" = the one that each run records.
      problem_config: settings of the test set that override the runs'.
      decode_hparams: decoding settings that override the defaults of the runs' problems.
      names: names of the systems; default: from the paths.
      source: file of a text to translate instead of the set; "" = the set.
      reference: file of the reference for `source`.
      translations: files with other systems' translations of the text, listed after the runs.

    Raises:
      UserError: a run, a checkpoint or a set does not exist, the sets differ, the problem is not
        translation, or a file cannot be read.
    """
    for path in (source, reference):
        check_not_stream(path, "Each run reads the text")
    names = system_names([*runs, *translations], names)
    opened_runs = [_open_run(Path(path), problem_config, decode_hparams) for path in runs]
    text_files = [(Path(source), Path(reference))] * len(runs)
    if not source:
        text_files = [_dataset_files(run.config, split, data_dir) for run in opened_runs]
    references = _shared_references(opened_runs, [file for _, file in text_files], split)
    # Check everything before a run translates; the references stand in for its translations.
    lines = [references] * len(runs) + [read_text(Path(path)) for path in translations]
    systems = list(map(System, names, lines, map(str, (*runs, *translations))))
    source_file, reference_file = text_files[0]
    text = TranslatedText(
        systems,
        references,
        str(reference_file),
        read_text(source_file),
        str(source_file),
        opened_runs[0].config.problem.tokenize,
    )
    for number, (run, (run_source, _)) in enumerate(zip(opened_runs, text_files, strict=True)):
        text_name = _text_name(run.config, split, source)
        systems[number] = _make_system(names[number], run, text_name, run_source)
    return dataclasses.replace(text, systems=systems)


def _text_name(config: RunConfig, split: str, source: str | Path) -> str:
    """Returns the part of translations' file names that identifies the text."""
    if not source:
        return f"{config.problem.name}.{split}"
    # The checksum distinguishes texts of the same name.
    return f"{Path(source).name}.{sha256_of(Path(source))[:8]}"


def _dataset_files(config: RunConfig, split: str, data_dir: str | Path) -> tuple[Path, Path]:
    """Returns the source and reference files of a run's dev or test set."""
    return open_generated(config.problem, data_dir or config.data_dir, True).text_paths(split)


def _shared_references(runs: Sequence[_Run], files: Sequence[Path], split: str) -> list[str]:
    """Returns the references in all files; raises `UserError` if two files differ."""
    references = read_text(files[0])
    for run, file in zip(runs, files, strict=True):
        lines = read_text(file)
        if lines == references:
            continue
        difference = f"{len(references):,} and {len(lines):,} lines"
        if len(references) == len(lines):
            pairs = enumerate(zip(references, lines, strict=True), 1)
            difference = f"line {next(n for n, (a, b) in pairs if a != b):,} differs"
        raise UserError(
            f"The references of the {split} sets of {runs[0].path} and {run.path} differ: "
            f"{difference}. Give the data for all runs with --data_dir.",
            code="other_text",
        )
    return references


def _open_run(
    path: Path, problem_config: Mapping[str, Any] | None, decode_hparams: str | Mapping[str, Any]
) -> _Run:
    model = stored_model(path)
    if not model:
        raise UserError(
            f"There is neither a run nor an export for another engine in {path}. {not_a_run(path)}",
            code="no_run",
        )
    config = _with_test_set(model.run_config, problem_config, path)
    return _Run(path, config, model, decode_config(decode_hparams, model.defaults))


def _with_test_set(
    config: RunConfig, problem_config: Mapping[str, Any] | None, path: Path
) -> RunConfig:
    if problem_config:
        merged = merge_flags(config, {"problem_config": problem_config})
        config.check_unchanged(merged, path)
        config = dataclasses.replace(config, problem=merged.problem)
    if config.problem.postprocessed_suffix:
        raise UserError(
            f"{path} is a run of {config.problem.name}: expected translation. Score trees with "
            f"t2t-evalb.",
            code="not_text",
        )
    return config


def _make_system(name: str, run: _Run, text: str, source: Path) -> System:
    output = run.path / "decodes" / decodes_name(text, run.decoding, run.engine)
    file, checkpoint = _find_translations(run, text, source, output), run.model.checkpoint_identity
    cost = read_cost(checkpoint["checkpoint"]) if checkpoint else None
    if file is None:
        _translate(run, source, output)
        file = output
    manifest = read_manifest(file)
    return System(
        name,
        first_hypotheses(file, dataclasses.asdict(run.decoding)),
        str(file),
        cost.seconds if cost else None,
        cost.hardware if cost else "",
        manifest.get("seconds"),
        manifest.get("hardware", "") if manifest.get("seconds") else "",
        sum(path.stat().st_size for path in run.model.files()) / 1e6,
    )


def _find_translations(run: _Run, text: str, source: Path, output: Path) -> Path | None:
    """Returns the file of the newest checkpoint's translations with the run's settings, or None."""
    stages = stage_settings(line_stages(run.decoding, run.config.problem))
    expected = as_json(dataclasses.asdict(run.decoding) | {"stages": stages, "prefixes": ""})
    expected |= {"ensemble": [], "forbidden": [], "source": sha256_of(source)}
    manifest = read_manifest(output)
    is_newest = _is_made_by(manifest, run) and output.stat().st_mtime >= run.modified_at
    if is_newest and manifest.items() >= expected.items():
        return output
    step = step_of((run.model.checkpoint_identity or {}).get("checkpoint", ""))
    folder = run.path / "translations"
    settings_file, translations = folder / f"{text}.json", folder / f"{text}-{step}"
    if run.engine or not (settings_file.is_file() and translations.is_file()):
        return None
    is_newest = translations.stat().st_mtime >= run.modified_at
    is_reusable = is_newest and read_json(settings_file, _ADVICE).items() >= expected.items()
    return translations if is_reusable else None


def _is_made_by(manifest: Mapping[str, Any], run: _Run) -> bool:
    """Returns whether translations are by a run's checkpoint, even if the run has moved."""
    recorded, current = (
        (Path(checkpoint.get("checkpoint", "")).name, checkpoint.get("digest"))
        for checkpoint in (manifest, run.model.checkpoint_identity or {})
    )
    return recorded == current and manifest.get("engine", "") == run.engine


def _translate(run: _Run, source: Path, output: Path) -> None:
    """Translates like t2t-decoder."""
    print(f"{run.path} has no translations of {source}: translating.", file=sys.stderr, flush=True)
    run.model.share_cores(run.decoding)
    translator = Translator.from_stored(run.model, run.decoding)
    provenance = run.model.provenance()
    with contextlib.redirect_stdout(sys.stderr):  # Standard output is for the report.
        translate_file(
            translator, source, output, provenance, inputs=[run.path], write_manifest=True
        )
