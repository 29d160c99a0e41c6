"""Real catalogues and XLIFF files, translated: are they right, and how good is the text?

    python experiments/documents/documents.py --output_dir=runs/averaged [--files=25]
        [--engine=ctranslate2] [--texts=FOLDER]

Translates all messages of the catalogues in po/ and the files in xliff/ of a folder, and pages of
HTML made of the messages with tags, with and without checked placeholders (those of texts with tags
are always checked), as final: nothing is fuzzy but what could break a program, which is `unsafe`.
For each it prints whether it is right: a catalogue passes `msgfmt -c`, and `with_fuzzy` also with
`--use-fuzzy`, which checks the unsafe as well; XLIFF and pages are well-formed, and pages have the
tags of their sources. Then
how many texts have the placeholders and the tags of their sources, BLEU and chrF against the
translations that are there, and seconds; at the end all as a line of JSON. With --texts, the
catalogues' translations are written as unchecked.txt and checked.txt beside reference.txt, a text a
line, for t2t-compare. Needs msgfmt of gettext.
"""

import argparse
import itertools
import json
import re
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from xml.etree import ElementTree

import polib

from t2t_keras.decoding.translator import Translator
from t2t_keras.metrics import bleu
from t2t_keras.workbench.documents import read_document, translate_document
from t2t_keras.workbench.markup.translator import MarkupTranslator
from t2t_keras.workbench.placeholders.finding import missing

_TAG = re.compile(r"</?[A-Za-z][^<>]*>")


def figures(original: Path, output: Path, seconds: float) -> dict:
    """Returns the figures of a translated file, and under "texts" its translations and references.

    Args:
      original: the file with the translations of people.
      output: the same, translated anew.
      seconds: that it took.
    """
    is_right = _is_right(output)
    if original.suffix == ".html":
        sides = (path.read_text(encoding="utf-8").splitlines() for path in (original, output))
        marked = pairs = list(itertools.zip_longest(*sides, fillvalue=""))
        is_right = is_right and all(_tags(source) == _tags(target) for source, target in pairs)
        texts = []
    else:
        references = read_document(original, "en").units
        units = read_document(output, "en").units if is_right or output.suffix == ".po" else []
        # A file that cannot be read has no translations.
        targets = [unit.target for unit in units] or [""] * len(references)
        pairs = [(unit.source, target) for unit, target in zip(references, targets, strict=True)]
        # What stands in angle brackets elsewhere, as in "Open <file>", is text.
        marked = [
            pair for unit, pair in zip(references, pairs, strict=True) if unit.format != "text"
        ]
        texts = [
            (" ".join(target.split()), " ".join(reference.target.split()))
            for reference, target in zip(references, targets, strict=True)
            if reference.is_translated
        ]
    return {
        "file": original.name,
        "right": is_right,
        "with_fuzzy": is_right and _is_right(output, "--use-fuzzy"),
        "units": len(pairs),
        "placeholders": sum(not any(missing(*pair)) for pair in pairs),
        "marked": len(marked),
        "tags": sum(_tags(source) == _tags(target) for source, target in marked),
        "seconds": round(seconds, 1),
        "texts": texts,
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


def _is_right(path: Path, *flags: str) -> bool:
    """Returns whether a written file passes msgfmt -c, or is well-formed XML."""
    if path.suffix != ".po":
        return _is_well_formed(path.read_bytes())
    command = ["msgfmt", "-c", *flags, "-o", "/dev/null", path]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _is_well_formed(content: bytes | str) -> bool:
    try:
        ElementTree.fromstring(content)
    except ElementTree.ParseError:
        return False
    return True


def write_pages(catalogues: Iterable[Path], folder: Path) -> list[Path]:
    """Writes a page for each catalogue, a paragraph for each of its messages with tags.

    Returns:
      The paths of the pages that have any; they are well-formed XML as well.
    """
    pages = []
    for path in catalogues:
        texts = (" ".join(entry.msgid.split()) for entry in polib.pofile(str(path)))
        lines = [f"<p>{text}</p>" for text in texts if _TAG.search(text)]
        lines = list(filter(_is_well_formed, lines))
        if lines:
            pages.append(folder / f"{path.name.removesuffix('.po')}.html")
            content = "\n".join(["<html><body>", *lines, "</body></html>", ""])
            pages[-1].write_text(content, encoding="utf-8")
    return pages


def _tags(text: str) -> Counter:
    return Counter(_TAG.findall(text))


def _translated(translator, path: Path, output: Path) -> dict:
    """Translates a file, and returns its figures."""
    document = read_document(path, translator.problem.source_language or "en")
    start = time.perf_counter()
    markup_translator = MarkupTranslator(translator)
    report = translate_document(document, markup_translator, everything=True, final=True)
    seconds = time.perf_counter() - start
    document.save(output)
    found = figures(path, output, seconds)
    first = {"file": path.name, "right": found["right"], "unsafe": report.unsafe}
    return first | found | {"broken": report.broken}


def _write_texts(rows: list[dict], folder: Path, name: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    [pairs] = [row["texts"] for row in rows if row["file"] == "all .po"]
    for lines, stem in zip(zip(*pairs, strict=True), (name, "reference"), strict=True):
        (folder / f"{stem}.txt").write_text("".join(f"{line}\n" for line in lines), "utf-8")


def main() -> None:
    """Prints the figures of each file, with and without checked placeholders."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output_dir", required=True, help="run that translates")
    parser.add_argument("--engine", default="keras")
    parser.add_argument("--folder", type=Path, default=Path("corpora/localisation"))
    parser.add_argument("--files", type=int, default=1000, help="most files of each format")
    parser.add_argument("--texts", type=Path, help="folder for the catalogues' translations")
    flags = parser.parse_args()
    paths = [
        path
        for pattern in ("po/*.po", "xliff/*.xlf")
        for path in sorted(flags.folder.glob(pattern))[: flags.files]
    ]
    if not paths:
        parser.error(f"expected po/*.po or xliff/*.xlf in {flags.folder}, got none")
    sources = tempfile.TemporaryDirectory()
    paths += write_pages((path for path in paths if path.suffix == ".po"), Path(sources.name))
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
        if flags.texts:
            _write_texts(rows, flags.texts, "checked" if check else "unchecked")
        for row in map(scored, rows):
            results.append({"check_placeholders": check, **row})
            print(results[-1], flush=True)
    print(json.dumps(results))
    sources.cleanup()


if __name__ == "__main__":
    main()
