"""Whatever format a text comes in, its plain text is the same; archives are read once."""

import gzip
import io
import os
import tarfile

import pytest

from t2t_keras import registry
from t2t_keras.errors import UserError
from t2t_keras.text.plain_text import FOLDER, plain_text
from t2t_keras.text.sources import ParallelFiles, SourceFile

LANGUAGES = ("en", "de")
PAIRS = [(f"the & house {n * n}", f'das "Haus" {n * n} größer') for n in range(40)]


def lines(side):
    return "".join(f"{pair[side]}\n" for pair in PAIRS).encode()


def sgml(side):
    segments = (f"<seg>{pair[side].replace('&', '&amp;')}</seg>\n" for pair in PAIRS)
    return "".join(segments).encode()


def tmx():
    variant = '<tuv lang="{}"><seg><![CDATA[{}]]></seg></tuv>'.format
    units = "".join(f"<tu>{''.join(map(variant, LANGUAGES, pair))}</tu>" for pair in PAIRS)
    return f"<tmx><body>{units}</body></tmx>".encode()


def tsv(order=(0, 1)):
    return "".join("\t".join(pair[side] for side in order) + "\r\n" for pair in PAIRS).encode()


FORMATS = {
    "plain": {"S.en": lines(0), "S.de": lines(1)},
    "gzip on one side": {"S.en.gz": gzip.compress(lines(0)), "S.de": lines(1)},
    "utf-16": {f"S.{c}": lines(s).decode().encode("utf-16") for s, c in enumerate(LANGUAGES)},
    "sgm": {"S-src.en.sgm": sgml(0), "S-ref.de.sgm": sgml(1)},
    "columns in the order of the name": {"S.tsv": tsv((1, 0))},
    "sgm.gz": {f"S.{c}.sgm.gz": gzip.compress(sgml(s)) for s, c in enumerate(LANGUAGES)},
    "tsv": {"S.tsv": tsv()},
    "tmx.gz": {"S.tmx.gz": gzip.compress(tmx())},
}


def write(folder, files, stem):
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / name.replace("S", stem, 1)).write_bytes(content)


def problem_of(**config):
    config = {"source_language": "en", "target_language": "de", "vocab_size": 300, **config}
    return registry.problem("parallel_text", config)


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_same_text(tmp_path, name):
    stem = "news.de-en" if name == "columns in the order of the name" else "news"
    write(tmp_path, FORMATS[name], stem)
    (pair,) = problem_of(dev=stem).files(tmp_path)["dev"]
    ((source, target),) = plain_text([pair], tmp_path)
    if stem == "news.de-en":
        source, target = target, source
    assert (source.read_bytes(), target.read_bytes()) == (lines(0), lines(1))
    assert (source.suffix, target.suffix) == (".en", ".de")


def test_files_of_one_name_in_two_folders(tmp_path):
    for folder in ("europarl", "news"):
        write(tmp_path / folder, FORMATS["sgm.gz"], "en-de")
    pairs = problem_of(train="europarl/en-de+news/en-de").files(tmp_path)["train"]
    plain = plain_text(pairs, tmp_path)
    assert [source.read_bytes() for source, _ in plain] == [lines(0)] * 2
    assert len({*plain[0], *plain[1]}) == 4


def archive(path, members, mode="w:gz"):
    with tarfile.open(path, mode) as file:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            file.addfile(info, io.BytesIO(content))


ARCHIVED = [
    ParallelFiles(*(SourceFile("a.tgz", members=(f"text.{code}",)) for code in LANGUAGES)),
    ParallelFiles(
        SourceFile("a.tgz", members=("dev.en", "dev-src.en.sgm")),
        SourceFile("a.tgz", members=("dev.de", "dev-ref.de.sgm")),
    ),
]
MEMBERS = {
    "./training/text.en": lines(0),
    "other": b"not wanted",
    "./training/text.de.gz": b"not this one",
    "dev/dev-src.en.sgm": sgml(0),
    "dev/dev-ref.de.sgm": b"<seg>longer than dev.de, which counts" + b"x" * 9999 + b"</seg>",
    "./training/text.de": lines(1),
    "dev/dev.de": lines(1),
}


def test_an_archive_is_read_again_only_if_it_must_be(tmp_path):
    path = tmp_path / "a.tgz"
    archive(path, MEMBERS)
    status = path.stat()
    plain = plain_text(ARCHIVED, tmp_path)
    for source, target in plain:
        assert (source.read_bytes(), target.read_bytes()) == (lines(0), lines(1))
    # Without content, but with the size and the time that tell whether it is the same.
    content = path.read_bytes()
    path.write_bytes(bytes(len(content)))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert plain_text(ARCHIVED, tmp_path) == plain
    plain[0][1].unlink()
    with pytest.raises(UserError, match=r"a\.tgz has no text\.de"):
        plain_text(ARCHIVED, tmp_path)
    # Another archive under the name is another text, which replaces that of the first.
    archive(path, {**MEMBERS, "./training/text.en": b"new\n"})
    ((source, target), _) = plain_text(ARCHIVED, tmp_path)
    assert (source.read_bytes(), target.read_bytes()) == (b"new\n", lines(1))
    assert [source.parent] == list((tmp_path / FOLDER).iterdir()) != [plain[0][0].parent]


def test_an_archive_that_is_cut_off(tmp_path):
    path = tmp_path / "a.tgz"
    archive(path, {**MEMBERS, "big": os.urandom(100_000), "training/last.de": b"x"})
    os.truncate(path, path.stat().st_size // 2)
    late = [ParallelFiles(ARCHIVED[0].source, SourceFile("a.tgz", members=("last.de",)))]
    with pytest.raises(UserError, match=r"a\.tgz is damaged or cut off .*bytes"):
        plain_text(late, tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (gzip.compress(b"a\tb\n" * 999)[:-9], r"x\.tsv\.gz is damaged"),
        (b"a\tb\n", r"x\.tsv\.gz is damaged .*Not a gzipped file"),
        (gzip.compress(b"a" * (1 << 25)), r"x\.tsv:1: .*16,777,216"),
    ],
    ids=["cut", "not packed", "long line"],
)
def test_a_fault_leaves_nothing(tmp_path, content, message):
    (tmp_path / "x.tsv.gz").write_bytes(content)
    pair = ParallelFiles(SourceFile("x.tsv.gz"), SourceFile("x.tsv.gz"), LANGUAGES)
    with pytest.raises(UserError, match=message):
        plain_text([pair], tmp_path)
    (folder,) = (tmp_path / FOLDER).iterdir()
    assert list(folder.iterdir()) == []
    folder.rmdir()
    folder.parent.rmdir()
    folder.parent.write_text("a file where a folder should be")
    with pytest.raises(UserError, match=FOLDER):
        plain_text([pair], tmp_path)
