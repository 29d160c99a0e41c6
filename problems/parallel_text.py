"""Your own parallel text."""

import itertools
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from t2t_keras.data.problem import Problem
from t2t_keras.errors import UserError
from t2t_keras.registry import register_problem
from t2t_keras.settings import as_text, setting
from t2t_keras.text.formats import GZIP_SUFFIX
from t2t_keras.text.sources import CorpusInfo, ParallelFiles, PreparedText, SourceFile


@register_problem
class ParallelText(Problem):
    """Your own files in --tmp_dir: train.XX, dev.XX and, optionally, test.XX.

    XX are the two languages: --problem_config="source_language=en,target_language=de" reads
    train.en, train.de, dev.en and dev.de. To fine-tune a model, set `vocab_file` to the
    `vocab.model` that it was trained with.

    Each split may also come as train.tsv (source<tab>target), train.tmx, train.en.sgm with
    train.de.sgm, or train-src.en.sgm with train-ref.de.sgm. Any file may be compressed, as .gz.
    """

    train: tuple[str, ...] = setting(
        ("train",), "training files without their language endings: train = train.en and train.de"
    )
    dev: tuple[str, ...] = setting(
        ("dev",), "dev files without their language endings, e.g. newstest2013"
    )
    test: tuple[str, ...] = setting(
        ("test",),
        "test files without their language endings, e.g. newstest2014-deen; may be missing",
        of_test_set=True,
    )
    source_tokens: Mapping[str, str] = setting(
        {}, "control token before each source of a corpus, as {web: <BT>}"
    )

    # Token for the target language, in the form that OPUS-MT's models take.
    language_in_front = re.compile(r">>[^\s<>]+<<\s+")

    def words_in_front(self, source: str) -> str:
        """Returns the target-language token at the start of a preprocessed line, or ""."""
        language = self.language_in_front.match(source)
        return language[0] if language else ""

    def files(self, tmp_dir: Path) -> dict[str, list[ParallelFiles]]:
        """Returns the files, with a test set if it has a file."""
        languages = (self.source_language, self.target_language)
        if not all(languages) or len(set(languages)) < 2:
            raise UserError(
                f"{self.name or 'parallel_text'} needs two languages, got source_language="
                f"'{languages[0]}' and target_language='{languages[1]}'. Give them as "
                f'--problem_config="source_language=en,target_language=de".',
                code="bad_value",
            )
        return self._files(tmp_dir, lambda stem: languages)

    def _files(
        self, tmp_dir: Path, languages_of: Callable[[str], tuple[str, str]]
    ) -> dict[str, list[ParallelFiles]]:
        for corpus, token in self.source_tokens.items():
            if corpus not in self.train or not re.fullmatch(r"<\S+>", token):
                raise UserError(
                    f"source_tokens: expected <TOKEN> for a corpus of train={as_text(self.train)}, "
                    f"got '{corpus}: {token}'.",
                    code="bad_value",
                )
        splits = {}
        for split in ("train", "dev", "test"):
            stems = getattr(self, split)
            if len(set(stems)) < len(stems):
                raise UserError(
                    f"{split}={as_text(stems)}: a text is named twice.", code="given_twice"
                )
            texts = [(stem, languages_of(stem)) for stem in stems]
            files = [_find_files(*text, tmp_dir) for text in texts]
            if split != "test" or (stems and (stems != ("test",) or files != [None])):
                splits[split] = [
                    _parallel_files(stem, names, languages)
                    for (stem, languages), names in zip(texts, files, strict=True)
                ]
        return splits

    def corpus_info(self, text: ParallelFiles | PreparedText) -> CorpusInfo:
        """See `Problem`."""
        prefix = self.source_tokens.get(text.corpus_name, "")
        return CorpusInfo(corpus=text.corpus_name, prefix=prefix)

    def text_name(self, split: str, lines: int) -> str:
        """Returns the split's files and number of lines; "" if the file has the split's name."""
        files = "+".join(getattr(self, split)) if split in ("dev", "test") else split
        return "" if files == split else f"{files} ({lines:,} lines)"


def _find_files(stem: str, languages: tuple[str, str], tmp_dir: Path) -> tuple[str, str] | None:
    """Returns the two files of a text, in any format, also compressed; None = there are none."""

    def existing_files(name: str) -> list[str]:
        return [file for file in (name, name + GZIP_SUFFIX) if (tmp_dir / file).exists()]

    complete_pairs, half_pairs = list[tuple[str, str]](), list[tuple[str, str]]()
    for pairs in _names_by_format(stem, *languages):
        files = [(existing_files(source), existing_files(target)) for source, target in pairs]
        complete_pairs += next((itertools.product(*sides) for sides in files if all(sides)), [])
        half_pairs += [
            ((*sources, source)[0], (*targets, target)[0])
            for (source, target), (sources, targets) in zip(pairs, files, strict=True)
            if sources or targets
        ]
    if len(complete_pairs) > 1:
        names = " and ".join(", ".join(dict.fromkeys(pair)) for pair in complete_pairs)
        raise UserError(
            f"{tmp_dir} has {stem} in more than one format: {names}. Keep only one there.",
            code="ambiguous_files",
        )
    # A single side counts too, so that an error names the missing one.
    return next(iter(complete_pairs + half_pairs), None)


def _names_by_format(stem: str, source: str, target: str) -> list[list[tuple[str, str]]]:
    """Returns the possible names of a text by format, the preferred ones first."""
    # In some years both sides of a test set were published as sources only.
    kinds = (("-src", "-ref"), ("-src", "-src"), ("-ref", "-src"))
    sgm = [
        (f"{stem}{first}.{source}.sgm", f"{stem}{second}.{target}.sgm") for first, second in kinds
    ]
    endings = ("", ".sgm", ".sgml")
    plain = [[(f"{stem}.{source}{ending}", f"{stem}.{target}{ending}")] for ending in endings]
    return [*plain, sgm, *([(f"{stem}{ending}",) * 2] for ending in (".tsv", ".tmx"))]


def _parallel_files(
    stem: str, names: tuple[str, str] | None, languages: tuple[str, str]
) -> ParallelFiles:
    source, target = names or (f"{stem}.{languages[0]}", f"{stem}.{languages[1]}")
    # As in news-commentary-v14.de-en.tsv: the name tells the order of the columns.
    swapped = ".{1}-{0}.tsv".format(*languages) in source
    return ParallelFiles(SourceFile(source), SourceFile(target), languages, swapped, stem)
