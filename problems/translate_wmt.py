"""The paper's translation tasks, WMT 2014 (section 5.1): English to German and to French."""

import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar, Self

from t2t_keras.data.problem import Problem
from t2t_keras.registry import register_problem
from t2t_keras.settings import setting
from t2t_keras.text.sources import (
    ParallelFiles,
    PreparedText,
    SourceFile,
    default_data_dir,
    downloads,
    manual_directory,
)

# The training and dev archives are those of tensorflow-datasets, the test archives of sacreBLEU.
_FILES = downloads(Path(__file__).with_name("downloads.tsv"))
_EUROPARL = _FILES["training-parallel-europarl-v7.tgz"]
_COMMON_CRAWL = _FILES["training-parallel-commoncrawl.tgz"]
_NEWS_COMMENTARY = _FILES["training-parallel-nc-v9.tgz"]
_UNITED_NATIONS = _FILES["training-parallel-un.tgz"]
_GIGA = _FILES["training-giga-fren.tar"]
_DEV, _TEST_FULL = _FILES["dev.tgz"], _FILES["test-full.tgz"]
_TEST_FILTERED = _FILES["test-filtered.tgz"]

# Archives, each with the name of its two members; "{}" stands for the language.
Corpora = tuple[tuple[SourceFile, str], ...]


@dataclasses.dataclass(frozen=True)
class _Wmt14(Problem):
    """Base of both tasks: dev newstest2013, test newstest2014.

    The text comes from the official archives in --tmp_dir, which stay packed, or from
    tensorflow-datasets (in $TFDS_DATA_DIR, else ~/tensorflow_datasets) if it is prepared there or
    its archives are in downloads/manual.
    """

    source_language: str = "en"
    vocab_lines: int = setting(
        1_000_000,
        "maximum training lines per side, evenly spread, to learn the vocabulary from; memory "
        "grows with it",
        minimum=1,
    )
    text_source: str = setting(
        "auto",
        "where the text comes from: archives in --tmp_dir; tfds = tensorflow-datasets; auto = "
        "archives if one is there, else tfds if it has the text",
        choices=("auto", "archives", "tfds"),
    )

    corpora: ClassVar[Corpora] = ()
    newstest2014: str = ""  # The edition of the test set; "" = there is only one.
    conventions: ClassVar[tuple[str, ...]] = ("tokenised",)

    def files(self, tmp_dir: Path) -> dict[str, Sequence[ParallelFiles | PreparedText]]:
        """Returns the archives' members, or the splits of tensorflow-datasets."""
        if self.resolved(tmp_dir).text_source == "archives":
            training = [self._members(archive, [name], [name]) for archive, name in self.corpora]
            return {"train": training, "dev": [self._dev()], "test": [self._test(tmp_dir)]}
        prepared = self._prepared()
        archive = manual_directory(prepared.data_dir).absolute() / _DEV.name
        if archive.exists():
            # In the official order, which tensorflow-datasets does not keep.
            official = dataclasses.replace(_DEV, name=str(archive))
            return {
                "train": [prepared],
                "dev": [self._dev(official)],
                "test": [self._test(tmp_dir, official)],
            }
        test: ParallelFiles | PreparedText
        if self.newstest2014 == "filtered":
            test = self._test(tmp_dir)  # tensorflow-datasets has the full edition.
        else:
            test = dataclasses.replace(prepared, split="test", has_entities=True)
        dev = dataclasses.replace(prepared, split="validation")
        return {"train": [prepared], "dev": [dev], "test": [test]}

    def resolved(self, tmp_dir: Path) -> Self:
        """Chooses the source of the text by the files that are present."""
        if self.text_source != "auto":
            return self
        text = self._prepared()
        is_in_tfds = text.newest_directory() or not text.missing_archives()
        has_archive = any((tmp_dir / file.name).exists() for file in text.archives)
        text_source = "tfds" if is_in_tfds and not has_archive else "archives"
        return dataclasses.replace(self, text_source=text_source)

    def text_name(self, split: str, lines: int) -> str:
        """Returns the name of the dev or test set, with its edition if there are several."""
        if split not in ("dev", "test"):
            return ""
        name, published = "newstest2013", 3000
        if split == "test":
            name = "newstest2014" + (f", {self.newstest2014} edition" if self.newstest2014 else "")
            # The test set for translation into English was never filtered.
            published = 2737 if self.newstest2014 == "filtered" and not self.reverse else 3003
        note = "" if lines == published else f"; as published it has {published:,}"
        return f"{name} ({lines:,} lines{note})"

    def _dev(self, archive: SourceFile = _DEV) -> ParallelFiles:
        endings = (".{}", "-src.{}.sgm", "-ref.{}.sgm")
        plain, source, reference = (f"newstest2013{ending}" for ending in endings)
        # Some editions of dev.tgz have plain text, too.
        return self._members(archive, [plain, source], [plain, reference, source])

    def _test(self, tmp_dir: Path, dev: SourceFile = _DEV) -> ParallelFiles:
        archive = _TEST_FILTERED if self.newstest2014 == "filtered" else _TEST_FULL
        if archive is _TEST_FULL and not (tmp_dir / archive.name).exists():
            archive = dev  # It has the full edition, too.
        # Each direction has its own files, which differ if only one of them was filtered.
        stem, kinds = f"newstest2014-{self.target_language}en", ("src", "ref")
        names = [f"{stem}-{kind}.{{}}.sgm" for kind in kinds[:: -1 if self.reverse else 1]]
        if archive in (_TEST_FULL, _TEST_FILTERED):
            return self._members(archive, names[:1], names[1:])
        # The files in dev.tgz were not filtered, so those of one direction serve for the other.
        return self._members(archive, names, names[::-1])

    def _members(
        self, archive: SourceFile, sources: Iterable[str], targets: Iterable[str]
    ) -> ParallelFiles:
        """Returns a pair of members: on each side the first name that exists, "{}" = language."""
        source, target = (
            dataclasses.replace(archive, members=tuple(name.format(code) for name in names))
            for code, names in zip(self._languages(), (sources, targets), strict=True)
        )
        return ParallelFiles(source, target)

    def _prepared(self) -> PreparedText:
        """Returns the training set as tensorflow-datasets has it."""
        dataset = f"wmt14_translate/{self.target_language}-{self.source_language}"
        archives = (*(archive for archive, _ in self.corpora), _DEV)
        return PreparedText(dataset, "train", self._languages(), default_data_dir(), archives)

    def _languages(self) -> tuple[str, str]:
        return self.source_language, self.target_language


@register_problem
class TranslateEnde(_Wmt14):
    """WMT14, English to German: 4.5 million pairs, joint BPE of 37,000 (section 5.1)."""

    target_language: str = "de"
    vocab_size: int = setting(37_000, "ids of the shared vocabulary (section 5.1)", minimum=4)
    newstest2014: str = setting(
        "full",
        "edition of the test set: full (3,003 lines), or filtered as scored in 2014 (2,737 lines "
        "into German; 3,003 into English)",
        choices=("full", "filtered"),
        of_test_set=True,
    )

    corpora: ClassVar[Corpora] = (
        (_EUROPARL, "europarl-v7.de-en.{}"),
        (_COMMON_CRAWL, "commoncrawl.de-en.{}"),
        (_NEWS_COMMENTARY, "news-commentary-v9.de-en.{}"),
    )
    conventions: ClassVar[tuple[str, ...]] = ("tokenised", "compound_split")


@register_problem
class TranslateEndeWmtBpe32k(TranslateEnde):
    """tensor2tensor's name for translate_ende: 32,000 merges make about 37,000 ids."""


@register_problem
class TranslateEndeWmt32k(TranslateEnde):
    """translate_ende with 2^15 unigram pieces; tensor2tensor's text had News Commentary v12."""

    vocab_size: int = setting(32_768, "ids of the shared vocabulary", minimum=4)
    vocab_kind: str = "unigram"  # SentencePiece's; tensor2tensor had word pieces.


@register_problem
class TranslateEnfr(_Wmt14):
    """WMT14, English to French: 36 million pairs, 32,000 unigram pieces (section 5.1)."""

    target_language: str = "fr"
    vocab_size: int = setting(32_000, "ids of the shared vocabulary (section 5.1)", minimum=4)
    vocab_kind: str = "unigram"  # SentencePiece's; the paper's were word pieces.

    corpora: ClassVar[Corpora] = (
        (_EUROPARL, "europarl-v7.fr-en.{}"),
        (_COMMON_CRAWL, "commoncrawl.fr-en.{}"),
        (_UNITED_NATIONS, "undoc.2000.fr-en.{}"),
        (_NEWS_COMMENTARY, "news-commentary-v9.fr-en.{}"),
        (_GIGA, "giga-fren.release2.fixed.{}.gz"),
    )


@register_problem
class TranslateEnfrWmt32k(TranslateEnfr):
    """translate_enfr with 2^15 unigram pieces, tensor2tensor's number."""

    vocab_size: int = setting(32_768, "ids of the shared vocabulary", minimum=4)
