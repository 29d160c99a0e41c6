"""Real catalogues and XLIFF files, translated: are they right, and how good is the text?

    python benchmarks/documents.py --output_dir=runs/averaged [--engine=ctranslate2] [--files=25]

Translates all messages of the catalogues in po/ and the files in xliff/ of a folder, with and
without checked placeholders, as final: nothing is fuzzy but what could break a program. For each it
prints what passes `msgfmt -c`, or is well-formed, how many texts have the placeholders and the tags
of their sources, BLEU and chrF against the translations that are there, and seconds; at the end
all as a line of JSON. Needs msgfmt of gettext.
"""

import json
import re
import subprocess
import tempfile
import time
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

from absl import app, flags

from t2t_keras.decoding.translator import Translator
from t2t_keras.documents import read_document, translate_document
from t2t_keras.metrics.bleu import bleu
from t2t_keras.text.placeholders.finding import missing

_RUN = flags.DEFINE_string("output_dir", None, "Run that translates.", required=True)
_ENGINE = flags.DEFINE_string("engine", "keras", "keras or ctranslate2.")
_FOLDER = flags.DEFINE_string(
    "folder", "../shared/data/localisation", "Folder with po/ and xliff/."
)
_FILES = flags.DEFINE_integer("files", 1000, "Files of each format to translate at most.", 1)
_TAG = re.compile(r"</?[A-Za-z][^<>]*>")


def _is_right(path: Path) -> bool:
    """Returns whether a written file passes msgfmt -c, or is well-formed XML."""
    if path.suffix != ".po":
        ElementTree.parse(path)
        return True
    command = ["msgfmt", "-c", "-o", "/dev/null", path]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _translated(translator, path: Path, output: Path) -> dict:
    """Returns the figures of a file, and under "texts" its translations and references."""
    document = read_document(path, translator.problem.source_language or "en")
    references = {id(unit): unit.target for unit in document.units if unit.is_translated}
    start = time.perf_counter()
    report = translate_document(document, translator, everything=True, final=True)
    seconds = time.perf_counter() - start
    document.save(output)
    units = document.units
    kept = [not any(missing(unit.source, unit.target)) for unit in units]
    tags = [_tags(unit.source) == _tags(unit.target) for unit in units]
    pairs = [
        (" ".join(unit.target.split()), " ".join(references[id(unit)].split()))
        for unit in units
        if id(unit) in references
    ]
    return {
        "file": path.name,
        "right": _is_right(output),
        "units": len(units),
        "placeholders": sum(kept),
        "tags": sum(tags),
        "broken": report.broken,
        "unsafe": report.unsafe,
        "seconds": round(seconds, 1),
        "texts": pairs,
    }


def _tags(text: str) -> Counter:
    return Counter(_TAG.findall(text))


def _scored(row: dict) -> dict:
    """Returns the figures with scores in place of the texts."""
    pairs = row.pop("texts")
    if pairs:
        score = bleu(*map(list, zip(*pairs, strict=True)))
        row |= {"bleu": round(score.bleu, 2), "chrf": round(score.chrf, 2)}
    return row


def _together(rows: list[dict], name: str) -> dict:
    """Returns the figures of files together."""
    counts = ("right", "units", "placeholders", "tags", "broken", "unsafe", "seconds")
    total = {count: sum(row[count] for row in rows) for count in counts}
    return {"file": name, **total, "texts": [pair for row in rows for pair in row["texts"]]}


def main(argv: list[str]) -> None:
    """Prints the figures of each file, with and without checked placeholders."""
    del argv
    folder = Path(_FOLDER.value)
    paths = [
        path
        for pattern in ("po/*.po", "xliff/*.xlf")
        for path in sorted(folder.glob(pattern))[: _FILES.value]
    ]
    results = []
    for check in (False, True):
        settings = f"check_placeholders={str(check).lower()}"
        translator = Translator.from_run(_RUN.value, decode_hparams=settings, engine=_ENGINE.value)
        with tempfile.TemporaryDirectory() as output:
            rows = [
                _translated(translator, path, Path(output) / f"new.{path.name}") for path in paths
            ]
        kinds = {path.suffix for path in paths}
        rows += [
            _together([row for row in rows if row["file"].endswith(kind)], f"all {kind}")
            for kind in sorted(kinds)
        ]
        for row in map(_scored, rows):
            results.append({"check_placeholders": check, **row})
            print(results[-1], flush=True)
    print(json.dumps(results))


if __name__ == "__main__":
    app.run(main)
