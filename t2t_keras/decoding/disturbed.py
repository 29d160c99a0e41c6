"""Translates a text with references, undisturbed and then with several kinds of disturbance."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from t2t_keras.data.augmentation import disturb
from t2t_keras.decoding.file_job import translate_file, translation_settings
from t2t_keras.decoding.translator import Translator
from t2t_keras.io.files import (
    as_json,
    check_outputs,
    read_json,
    sha256_of,
    write_atomically,
    write_json,
)
from t2t_keras.text.files import read_text


class TranslatedFiles(NamedTuple):
    """The files of a translated text."""

    kind: str  # kind of its disturbance; "" = none
    source: str
    reference: str
    output: str
    is_new: bool  # False if an earlier, interrupted job has yielded it


def translate_disturbed(
    translator: Translator,
    source: str | Path,
    reference: str | Path,
    output: str | Path,
    provenance: Mapping[str, Any],
    kinds: Sequence[str],
    inputs: Sequence[str | Path] = (),
    write_manifest: bool = False,
    result_files: Sequence[str | Path] = (),
) -> Iterator[TranslatedFiles]:
    """Translates a text, and then its variant disturbed by each kind of augmentation.

    Yields each text when it is complete. For each kind, OUTPUT.KIND has the translations, and
    OUTPUT.KIND.source and OUTPUT.KIND.reference the disturbed text. After an interruption, the same
    call translates only the missing texts.

    Args:
      translator: the translator.
      source: the undisturbed text.
      reference: the references, line-aligned with the source.
      output: file for the translations of the undisturbed text.
      provenance: see `translate_file`.
      kinds: names of augmentations.
      inputs: see `translate_file`.
      write_manifest: see `translate_file`; only for the undisturbed text.
      result_files: files that the caller adds results to, which no output may replace.

    Raises:
      UserError: see `disturb` and `translate_file`.
    """
    paths_by_kind = {"": (str(source), str(reference), str(output))}
    for kind in kinds:
        name = f"{output}.{kind}"
        paths_by_kind[kind] = f"{name}.source", f"{name}.reference", name
    record_file = Path(f"{output}.disturbed.json")
    disturbed_paths = [path for kind in kinds for path in paths_by_kind[kind]]
    check_outputs([source, reference, *inputs], [*disturbed_paths, record_file], result_files)
    files = {"source": sha256_of(Path(source)), "reference": sha256_of(Path(reference))}
    made_from = as_json({**files, **provenance, **translation_settings(translator)})
    keys, is_continued = ("made_from", "done"), record_file.exists()
    record = read_json(record_file, "Delete it.", keys) if is_continued else {}
    done_before = record["done"] if record.get("made_from") == made_from else ()
    sides, done_kinds = (read_text(Path(source)), read_text(Path(reference))), []
    for kind, paths in paths_by_kind.items():
        if kind:
            for path, side in zip(paths, disturb(kind, *sides), strict=False):
                write_atomically(Path(path), "".join(f"{line}\n" for line in side).encode())
        is_new = kind not in done_before or not Path(paths[-1]).exists()
        if is_new:
            translate_file(
                translator,
                paths[0],
                paths[2],
                provenance,
                references=paths[1],
                inputs=inputs,
                write_manifest=write_manifest and not kind,
            )
        yield TranslatedFiles(kind, *paths, is_new)
        done_kinds.append(kind)
        write_json(record_file, {"made_from": made_from, "done": done_kinds})
    record_file.unlink()
