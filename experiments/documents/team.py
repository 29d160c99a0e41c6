"""A localisation team's day: empty catalogues go to a server, and come back through DeepL's client.

    t2t-serve --model=en-de=runs/localisation/soft.int8 &
    python experiments/documents/team.py --server=http://127.0.0.1:5000

Takes all translations out of the catalogues in po/ of a folder, and has `deepl`'s official client
send each file as a document. Prints a row for each: whether it passes `msgfmt -c`, and also with
--use-fuzzy, for the server marks all as fuzzy; messages, placeholders and tags as in their sources;
BLEU and chrF against the translations that were taken out; and seconds until the client has the
file, which asks for it every 5 s.
"""

import argparse
import tempfile
import time
from pathlib import Path

import deepl
import polib
from documents import figures, scored, together


def _emptied(path: Path, output: Path) -> None:
    """Writes a catalogue without its translations, as a team gets it."""
    catalogue = polib.pofile(str(path))
    for entry in catalogue:
        entry.msgstr = ""
        entry.msgstr_plural = dict.fromkeys(entry.msgstr_plural, "")
        entry.flags = [flag for flag in entry.flags if flag != "fuzzy"]
    catalogue.save(str(output))


def main() -> None:
    """Prints the figures of each catalogue, and of all together."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", required=True)
    parser.add_argument("--folder", type=Path, default=Path("corpora/localisation"))
    parser.add_argument("--output", type=Path, help="where the translated catalogues are kept")
    flags = parser.parse_args()
    paths = sorted((flags.folder / "po").glob("*.po"))
    if not paths:
        parser.error(f"expected po/*.po in {flags.folder}, got none")
    client = deepl.DeepLClient("any key", server_url=flags.server)
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        output = flags.output or Path(temporary)
        output.mkdir(parents=True, exist_ok=True)
        for path in paths:
            empty, done = Path(temporary) / f"empty.{path.name}", output / path.name
            _emptied(path, empty)
            done.unlink(missing_ok=True)
            start = time.perf_counter()
            client.translate_document_from_filepath(empty, done, source_lang="EN", target_lang="DE")
            rows.append(figures(path, done, time.perf_counter() - start))
    for row in [*rows, together(rows, "all")]:
        print(scored(row), flush=True)


if __name__ == "__main__":
    main()
