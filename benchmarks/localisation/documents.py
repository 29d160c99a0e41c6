"""Real catalogues and XLIFF files, translated: are they right, and how good is the text?

    python benchmarks/localisation/documents.py --output_dir=runs/averaged [--files=25]
        [--engine=ctranslate2]

Translates all messages of the catalogues in po/ and the files in xliff/ of a folder, with and
without checked placeholders, as final: nothing is fuzzy but what could break a program. For each it
prints what passes `msgfmt -c`, or is well-formed, how many texts have the placeholders and the tags
of their sources, BLEU and chrF against the translations that are there, and seconds; at the end
all as a line of JSON. Needs msgfmt of gettext.
"""

import argparse
import json
import re
import subprocess
import tempfile
import time
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

from t2t_keras.decoding.translator import Translator
from t2t_keras.documents import read_document, translate_document
from t2t_keras.metrics.bleu import bleu
from t2t_keras.text.placeholders.finding import missing

_TAG = re.compile(r"</?[A-Za-z][^<>]*>")


def figures(original: Path, output: Path, seconds: float) -> dict:
    """Returns the figures of a translated file, and under "texts" its translations and references.

    Args:
      original: the file with the translations of people.
      output: the same, translated anew.
      seconds: that it took.
    """
    originals, units = (read_document(path, "en").units for path in (original, output))
    both = list(zip(originals, units, strict=True))
    return {
        "file": original.name,
        "right": _is_right(output),
        "units": len(units),
        "placeholders": sum(not any(missing(unit.source, unit.target)) for unit in units),
        "tags": sum(_tags(unit.source) == _tags(unit.target) for unit in units),
        "seconds": round(seconds, 1),
        "texts": [
            (" ".join(unit.target.split()), " ".join(reference.target.split()))
            for reference, unit in both
            if reference.is_translated
        ],
    }


def together(rows: list[dict], name: str) -> dict:
    """Returns the figures of files together."""
    counts = [count for count in rows[0] if count not in ("file", "texts")]
    total = {count: sum(row[count] for row in rows) for count in counts}
    return {"file": name, **total, "texts": [pair for row in rows for pair in row["texts"]]}


def scored(row: dict) -> dict:
    """Returns the figures with scores in place of the texts."""
    pairs = row.pop("texts")
    if pairs:
        score = bleu(*map(list, zip(*pairs, strict=True)))
        row |= {"bleu": round(score.bleu, 2), "chrf": round(score.chrf, 2)}
    return row


def _is_right(path: Path) -> bool:
    """Returns whether a written file passes msgfmt -c, or is well-formed XML."""
    if path.suffix != ".po":
        ElementTree.parse(path)
        return True
    command = ["msgfmt", "-c", "-o", "/dev/null", path]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _tags(text: str) -> Counter:
    return Counter(_TAG.findall(text))


def _translated(translator, path: Path, output: Path) -> dict:
    """Translates a file, and returns its figures."""
    document = read_document(path, translator.problem.source_language or "en")
    start = time.perf_counter()
    report = translate_document(document, translator, everything=True, final=True)
    seconds = time.perf_counter() - start
    document.save(output)
    counts = {"broken": report.broken, "unsafe": report.unsafe}
    return figures(path, output, seconds) | counts


def main() -> None:
    """Prints the figures of each file, with and without checked placeholders."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output_dir", required=True, help="run that translates")
    parser.add_argument("--engine", default="keras")
    parser.add_argument("--folder", type=Path, default=Path("../shared/data/localisation"))
    parser.add_argument("--files", type=int, default=1000, help="most files of each format")
    flags = parser.parse_args()
    paths = [
        path
        for pattern in ("po/*.po", "xliff/*.xlf")
        for path in sorted(flags.folder.glob(pattern))[: flags.files]
    ]
    results = []
    for check in (False, True):
        settings = f"check_placeholders={str(check).lower()}"
        translator = Translator.from_run(
            flags.output_dir, decode_hparams=settings, engine=flags.engine
        )
        with tempfile.TemporaryDirectory() as output:
            rows = [
                _translated(translator, path, Path(output) / f"new.{path.name}") for path in paths
            ]
        kinds = {path.suffix for path in paths}
        rows += [
            together([row for row in rows if row["file"].endswith(kind)], f"all {kind}")
            for kind in sorted(kinds)
        ]
        for row in map(scored, rows):
            results.append({"check_placeholders": check, **row})
            print(results[-1], flush=True)
    print(json.dumps(results))


if __name__ == "__main__":
    main()
