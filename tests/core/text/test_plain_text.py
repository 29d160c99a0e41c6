"""Whatever format a text comes in, its plain text is the same; archives are read once."""

import dataclasses
import gzip
import os

import pytest
from refusals import refused
from small_wmt import archive, plain, sgml

from t2t_keras.data.problem import make_problem
from t2t_keras.text.sources import FOLDER, ParallelFiles, SourceFile, plain_text

LANGUAGES = ("en", "de")
PAIRS = [(f"the & house {n * n}", f'das "Haus" {n * n} größer') for n in range(40)]
(ENGLISH, GERMAN), (ENGLISH_SGML, GERMAN_SGML) = (
    [write(side) for side in zip(*PAIRS, strict=True)] for write in (plain, sgml)
)
TSV, SWAPPED_TSV = (plain("\t".join(pair[::order]) + "\r" for pair in PAIRS) for order in (1, -1))
VARIANT = '<tuv lang="{}"><seg><![CDATA[{}]]></seg></tuv>'.format
UNITS = plain(f"<tu>{''.join(map(VARIANT, LANGUAGES, pair))}</tu>" for pair in PAIRS)


def problem_of(**config):
    config = {"source_language": "en", "target_language": "de", "vocab_size": 300, **config}
    return make_problem("parallel_text", config)


@pytest.mark.parametrize(
    "files",
    [
        {"dev.en": ENGLISH, "dev.de": GERMAN},
        {"dev.en.gz": gzip.compress(ENGLISH), "dev.de": GERMAN},
        {"dev.en": ENGLISH.decode().encode("utf-16"), "dev.de": GERMAN.decode().encode("utf-16")},
        {"dev-src.en.sgm": ENGLISH_SGML, "dev-ref.de.sgm": GERMAN_SGML},
        {"dev.en.sgm.gz": gzip.compress(ENGLISH_SGML), "dev.de.sgm": GERMAN_SGML},
        {"dev.tsv": TSV},
        {"dev.tmx.gz": gzip.compress(b"<tmx><body>%b</body></tmx>" % UNITS)},
        # The columns are in the order of the name.
        {"dev.de-en.tsv": SWAPPED_TSV},
    ],
    ids="+".join,
)
def test_every_format_gives_the_same_text(tmp_path, files):
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    stem = "dev.de-en" if "dev.de-en.tsv" in files else "dev"
    [paths] = plain_text(problem_of(dev=stem).files(tmp_path)["dev"], tmp_path)
    assert [path.suffix for path in paths] == [".en", ".de"]
    assert [path.read_bytes() for path in paths] == [ENGLISH, GERMAN]


def test_the_columns_are_those_of_the_languages_given_last(tmp_path):
    (tmp_path / "dev.tsv").write_bytes(TSV)
    for languages in ({}, {"source_language": "de", "target_language": "en"}):
        [paths] = plain_text(problem_of(**languages).files(tmp_path)["dev"], tmp_path)
        assert [path.read_bytes() for path in paths] == [ENGLISH, GERMAN]


def test_one_file_in_both_orders_of_its_columns(tmp_path):
    (tmp_path / "dev.tsv").write_bytes(TSV)
    files = [SourceFile("dev.tsv")] * 2
    corpora = [ParallelFiles(*files, LANGUAGES, swapped) for swapped in (False, True)]
    texts = [[path.read_bytes() for path in paths] for paths in plain_text(corpora, tmp_path)]
    assert texts == [[ENGLISH, GERMAN], [GERMAN, ENGLISH]]
    # Another file of the same size is read again.
    before = (tmp_path / "dev.tsv").stat().st_mtime_ns
    (tmp_path / "dev.tsv").write_bytes(TSV.replace(b"house", b"horse"))
    os.utime(tmp_path / "dev.tsv", ns=(before, before + 10**9))
    [(source, _)] = plain_text(corpora[:1], tmp_path)
    assert source.read_bytes() == ENGLISH.replace(b"house", b"horse")


def test_files_of_one_name_in_two_folders(tmp_path):
    for folder in ("europarl", "news"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "en-de.en").write_bytes(ENGLISH)
        (tmp_path / folder / "en-de.de.gz").write_bytes(gzip.compress(folder.encode()))
    pairs = problem_of(train=("europarl/en-de", "news/en-de")).files(tmp_path)["train"]
    # Nor does the name in which "/" is spelled stand for another.
    other = SourceFile("news%2Fen-de.de.gz")
    (tmp_path / other.name).write_bytes(gzip.compress(b"other"))
    pairs = [*pairs, ParallelFiles(pairs[0].source, other)]
    texts = [[path.read_bytes() for path in pair] for pair in plain_text(pairs, tmp_path)]
    assert texts == [[ENGLISH, b"europarl\n"], [ENGLISH, b"news\n"], [ENGLISH, b"other\n"]]


ARCHIVED = [
    ParallelFiles(*(SourceFile("a.tgz", members=(f"text.{code}",)) for code in LANGUAGES)),
    ParallelFiles(
        SourceFile("a.tgz", members=("dev.en", "dev-src.en.sgm")),
        SourceFile("a.tgz", members=("dev.de", "dev-ref.de.sgm")),
    ),
]
MEMBERS = {
    "./training/text.en": ENGLISH,
    "other": b"not wanted",
    "./training/text.de.gz": b"not this one",
    "dev/dev-src.en.sgm": ENGLISH_SGML,
    "dev/dev-ref.de.sgm": b"<seg>longer than dev.de, which counts" + b"x" * 9999 + b"</seg>",
    "./training/text.de": GERMAN,
    "dev/dev.de": GERMAN,
    "old/dev-ref.de.sgm": b"<seg>neither does this one</seg>",
}


def test_an_archive_is_read_again_only_if_it_must_be(tmp_path):
    path = tmp_path / "a.tgz"
    archive(path, MEMBERS)
    status = path.stat()
    found = plain_text(ARCHIVED, tmp_path)
    for source, target in found:
        assert (source.read_bytes(), target.read_bytes()) == (ENGLISH, GERMAN)
    # Without content, but with the size and the time that tell whether it is the same.
    path.write_bytes(bytes(status.st_size))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert plain_text(ARCHIVED, tmp_path) == found
    found[0][1].unlink()
    with refused("missing_members", "a.tgz", "text.de"):
        plain_text(ARCHIVED, tmp_path)
    # Another archive under the name is another text, which replaces that of the first.
    archive(path, {**MEMBERS, "./training/text.en": b"new\n"})
    ((source, target), _) = plain_text(ARCHIVED, tmp_path)
    assert (source.read_bytes(), target.read_bytes()) == (b"new\n", GERMAN)
    assert [source.parent] == list((tmp_path / FOLDER).iterdir()) != [found[0][0].parent]


def test_an_archive_that_is_cut_off(tmp_path):
    path = tmp_path / "a.tgz"
    archive(path, {**MEMBERS, "big": os.urandom(100_000), "training/last.de": b"x"})
    os.truncate(path, path.stat().st_size // 2)
    source = dataclasses.replace(ARCHIVED[0].source, size=1_234_567)
    late = [ParallelFiles(source, SourceFile("a.tgz", members=("last.de",)))]
    with refused("damaged_file", "a.tgz", f"{path.stat().st_size:,} ", " 1,234,567"):
        plain_text(late, tmp_path)


@pytest.mark.parametrize(
    ("content", "code", "names"),
    [
        (gzip.compress(b"a\tb\n" * 999)[:-9], "damaged_file", ["x.tsv.gz"]),
        (b"a\tb\n", "damaged_file", ["x.tsv.gz"]),
        (gzip.compress(b"a" * (1 << 25)), "too_long", ["x.tsv:1:", "16,777,216"]),
    ],
    ids=["cut", "not packed", "long line"],
)
def test_a_fault_leaves_nothing(tmp_path, content, code, names):
    (tmp_path / "x.tsv.gz").write_bytes(content)
    pair = ParallelFiles(SourceFile("x.tsv.gz"), SourceFile("x.tsv.gz"), LANGUAGES)
    with refused(code, *names):
        plain_text([pair], tmp_path)
    (folder,) = (tmp_path / FOLDER).iterdir()
    assert list(folder.iterdir()) == []


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / FOLDER).write_text("a file where a folder should be")
    (tmp_path / "x.tsv").write_bytes(TSV)
    with refused("not_read", FOLDER, "--tmp_dir"):
        plain_text([ParallelFiles(*[SourceFile("x.tsv")] * 2, LANGUAGES)], tmp_path)
