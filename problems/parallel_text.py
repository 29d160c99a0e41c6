"""The user's own parallel text."""

import dataclasses
import itertools
from pathlib import Path

from t2t_keras.data.problem import ParallelFiles, Problem, SourceFile
from t2t_keras.errors import UserError
from t2t_keras.registry import register_problem
from t2t_keras.settings import setting

_PACKINGS = ("", ".gz")


@register_problem
@dataclasses.dataclass(frozen=True)
class ParallelText(Problem):
    """Your own files: train.XX, dev.XX and, where there is one, test.XX in --tmp_dir.

    XX are the two languages, which --problem_config="source_language=en,target_language=de" gives:
    train.en, train.de, dev.en, dev.de. To fine-tune a model, give `vocab_file` the `vocab.model`
    that it was trained with.

    Each split may also come as train.tsv (source<tab>target), train.tmx, train.en.sgm with
    train.de.sgm, or train-src.en.sgm with train-ref.de.sgm; and each file as its .gz.
    """

    train: str = setting("train", "training files without their endings; + between several")
    dev: str = setting("dev", "dev files likewise, e.g. newstest2013")
    test: str = setting(
        "test", "test files likewise, e.g. newstest2014-deen; may be missing", of_test_set=True
    )

    def files(self, tmp_dir: Path) -> dict[str, list[ParallelFiles]]:
        """Returns the files; the test set is there if a test file is.

        Raises:
          UserError: no two languages, or files of one text in more than one format.
        """
        languages = (self.source_language, self.target_language)
        if not all(languages) or len(set(languages)) < 2:
            raise UserError(
                f"{self.name or 'parallel_text'} needs two languages; source_language="
                f"'{languages[0]}' and target_language='{languages[1]}' came. Give them as "
                f'--problem_config="source_language=en,target_language=de".'
            )
        splits = {}
        for split in ("train", "dev", "test"):
            stems = [stem.strip() for stem in getattr(self, split).split("+")]
            found = [_found(stem, languages, tmp_dir) for stem in stems]
            if split != "test" or stems != ["test"] or found != [None]:
                splits[split] = [
                    pair or _formats(stem, languages)[0][0]
                    for stem, pair in zip(stems, found, strict=True)
                ]
        return splits

    def text_name(self, split: str, lines: int) -> str:
        """Returns the names of the files that are the split, where they say more than it does."""
        files = getattr(self, split) if split in ("dev", "test") else split
        return "" if files == split else f"{files} ({lines:,} lines)"


def _found(stem: str, languages: tuple[str, str], tmp_dir: Path) -> ParallelFiles | None:
    """Returns the files of a text that are there, in whichever format; None if there are none."""
    whole, halves = [], []
    for names in _formats(stem, languages):
        there = [
            (pair, [(tmp_dir / file.name).exists() for file in (pair.source, pair.target)])
            for pair in names
        ]
        whole += [pair for pair, sides in there if all(sides)][:1]
        halves += [pair for pair, sides in there if any(sides)]
    if len(whole) > 1:
        names = " and ".join(f"{pair.source.name}, {pair.target.name}" for pair in whole[:2])
        raise UserError(
            f"{tmp_dir} has {stem} in more than one format: {names}. Keep one of them there."
        )
    # Half a pair is taken too, so that the missing half is asked for by its name.
    return next(iter(whole + halves), None)


def _formats(stem: str, languages: tuple[str, str]) -> list[list[ParallelFiles]]:
    """Returns the names that a text may have, by format; in a format the first names win."""
    source, target = languages
    formats = [
        [(f"{stem}.{source}{ending}", f"{stem}.{target}{ending}")]
        for ending in ("", ".sgm", ".sgml")
    ]
    # Some years published each side of a test set as a source only.
    formats.append(
        [
            (f"{stem}-{first}.{source}.sgm", f"{stem}-{second}.{target}.sgm")
            for first, second in (("src", "ref"), ("src", "src"), ("ref", "src"))
        ]
    )
    # As in news-commentary-v14.de-en.tsv: the name tells the order of the columns.
    columns = languages[::-1] if stem.endswith(f".{target}-{source}") else languages
    return [
        [
            ParallelFiles(SourceFile(first + packing), SourceFile(second + packing))
            for first, second in names
        ]
        for names, packing in itertools.product(formats, _PACKINGS)
    ] + [
        [ParallelFiles(file, file, order)]
        for ending, order in ((".tsv", columns), (".tmx", languages))
        for file in (SourceFile(stem + ending + packing) for packing in _PACKINGS)
    ]
