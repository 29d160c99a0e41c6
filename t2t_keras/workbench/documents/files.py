"""Several documents, or folders of them, from files to files."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from t2t_keras.errors import UserError
from t2t_keras.io.atomic import check_parent
from t2t_keras.io.outputs import check_outputs
from t2t_keras.io.progress import LineProgress, print_beside_bar
from t2t_keras.io.terminal import printable
from t2t_keras.workbench.documents.document import main_language
from t2t_keras.workbench.documents.memory import TranslationMemory
from t2t_keras.workbench.documents.reading import EXTENSIONS, read_document, translated_name
from t2t_keras.workbench.documents.translating import translate_document


class Plan(NamedTuple):
    """Which file becomes which, and how many of folders are no documents."""

    files: list[tuple[Path, Path]]
    others: int


def planned(paths: Sequence[str | Path], reads: Sequence[str | Path] = ()) -> Plan:
    """Returns what is to be translated to where.

    Args:
      paths: files and folders, and at the end the file to write; a folder if they are several or
        one of them is a folder, or if it is there.
      reads: what must not be replaced either.

    Raises:
      UserError: there is no file, an output would replace an input or another output, or nothing
        can be written there.
    """
    if len(paths) < 2:
        raise UserError(
            f"Expected files to translate and where to write them, got {len(paths)}.",
            code="missing_argument",
        )
    *inputs, output = map(Path, paths)
    files: list[tuple[Path, Path]] = []
    others = 0
    for path in inputs:
        if path.is_dir():
            for file in sorted(each for each in path.rglob("*") if each.is_file()):
                if file.suffix.lower() in EXTENSIONS:
                    files.append((file, output / file.relative_to(path)))
                else:
                    others += 1
        elif len(inputs) > 1 or output.is_dir():
            files.append((path, output / path.name))
        else:
            files.append((path, output))
    if not files:
        raise UserError(
            f"Expected files with one of {', '.join(EXTENSIONS)}, got none.", code="no_documents"
        )
    files = [(path, translated_name(to)) for path, to in files]
    for path, to in files:
        if path.suffix.lower() not in EXTENSIONS or not path.is_file():
            # It says what is wrong, before the model is loaded.
            read_document(path)
        check_parent(to)
    reads = [path for path in reads if path]
    check_outputs([*reads, *(path for path, _ in files)], [to for _, to in files])
    return Plan(files, others)


def translate_files(
    plan: Plan,
    translator,
    languages: tuple[str, str] = ("", ""),
    memory: str | Path = "",
    **options,
) -> int:
    """Translates files and prints what was done to each; returns how many could not be translated.

    Args:
      plan: what `planned` returned.
      translator: a `MarkupTranslator`.
      languages: codes of source and target, "" = those of the translator's problem.
      memory: file of a translation memory, "" = none.
      options: as of `translate_document`.

    Raises:
      UserError: the only file, or the memory, cannot be read; or the problem is not of plain text.
    """
    problem = translator.translator.problem
    if not problem.is_plain_text:
        raise UserError(
            f"Documents are for translation: {problem.name} is of symbols.", code="not_supported"
        )
    source, target = map(_language, ("source", "target"), languages, problem.languages())
    known = TranslationMemory.read(memory, source, target) if memory else None
    failed = 0
    for path, output in plan.files:
        try:
            document = read_document(path, source, target)
            with _Bar() as bar:
                report = translate_document(
                    document, translator, memory=known, progress=bar.show, **options
                )
            document.save(output)
        except UserError as error:
            if len(plan.files) == 1:
                raise
            failed += 1
            print(printable(f"Not translated: {error}"), file=sys.stderr, flush=True)
        else:
            print_beside_bar(f"{output}: {report}")
    if plan.others:
        print_beside_bar(f"{plan.others:,} other files of the folders were left out.")
    return failed


def _language(side: str, requested: str, trained: str) -> str:
    """Returns the language of a side; raises `UserError` where the model has another one."""
    if requested and trained and main_language(requested) != main_language(trained):
        raise UserError(
            f"--{side}_language={requested}: the model's {side} language is {trained}. Leave the "
            f"flag out, or give the --output_dir of a model for {requested}.",
            code="other_language",
        )
    return requested or trained


class _Bar:
    """A bar that learns how many lines there are with the first of them."""

    def __enter__(self) -> "_Bar":
        self.bar = LineProgress(None, 0)
        return self

    def __exit__(self, *error) -> None:
        self.bar.close()

    def show(self, done: int, total: int) -> None:
        self.bar.total = total
        self.bar.update(done - self.bar.n)
