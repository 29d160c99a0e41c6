"""Whatever format a text comes in, the data made of it is the same; archives are read once."""

import gzip
import io
import os
import tarfile

import pytest

from t2t_keras import registry
from t2t_keras.data import plain_text as module
from t2t_keras.data.generate import generate
from t2t_keras.data.generated import open_generated
from t2t_keras.data.plain_text import FOLDER, plain_text
from t2t_keras.data.problem import ParallelFiles, SourceFile
from t2t_keras.errors import UserError

LANGUAGES = ("en", "de")
PAIRS = [(f"the & house {n * n}", f'das "Haus" {n * n} größer') for n in range(40)]


def lines(side):
    return "".join(f"{pair[side]}\n" for pair in PAIRS).encode()


def sgml(side, root):
    segments = [
        f'<seg id="{n}">{pair[side].replace("&", "&amp;")}</seg>' for n, pair in enumerate(PAIRS, 1)
    ]
    return "\n".join([f'<{root} setid="x"><doc docid="a">', *segments, f"</doc></{root}>"]).encode()


def tmx():
    units = [
        "<tu>"
        + "".join(
            f'<tuv xml:lang="{code}"><seg>{text.replace("&", "&amp;")}</seg></tuv>'
            for code, text in zip(("en-US", "de-DE"), pair, strict=True)
        )
        + "</tu>"
        for pair in PAIRS
    ]
    return "\n".join(["<tmx><body>", *units, "</body></tmx>"]).encode()


def tsv(order=(0, 1)):
    return "".join("\t".join(pair[side] for side in order) + "\r\n" for pair in PAIRS).encode()


FORMATS = {
    "plain": {"S.en": lines(0), "S.de": lines(1)},
    "gzip": {"S.en.gz": gzip.compress(lines(0)), "S.de.gz": gzip.compress(lines(1))},
    "sgm": {"S-src.en.sgm": sgml(0, "srcset"), "S-ref.de.sgm": sgml(1, "refset")},
    "sgm both ways": {
        f"S-{kind}.{code}.sgm": sgml(side, "x")
        for kind in ("src", "ref")
        for side, code in enumerate(LANGUAGES)
    },
    "sgm.gz": {f"S.{c}.sgm.gz": gzip.compress(sgml(s, "x")) for s, c in enumerate(LANGUAGES)},
    "tsv": {"S.tsv": tsv()},
    "tsv.gz": {"S.tsv.gz": gzip.compress(tsv())},
    "tmx": {"S.tmx": tmx()},
    "tmx.gz": {"S.tmx.gz": gzip.compress(tmx())},
}


def write(folder, files, stem):
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / name.replace("S", stem, 1)).write_bytes(content)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("reverse", ["", "_rev"])
def test_every_format_gives_the_same_text(tmp_path, name, reverse):
    write(tmp_path, FORMATS[name], "newstest2013")
    write(tmp_path, FORMATS["plain"], "train")
    problem = registry.problem(
        f"parallel_text{reverse}",
        "source_language=en,target_language=de,vocab_size=300,dev=newstest2013",
    )
    generate(problem, tmp_path / "data", tmp_path)
    text = open_generated(problem, tmp_path / "data").text("dev")
    expected = [list(side) for side in zip(*PAIRS, strict=True)]
    assert list(text) == expected[:: -1 if reverse else 1]


def test_columns_are_in_the_order_of_the_name(tmp_path):
    write(tmp_path, {"S.tsv": tsv((1, 0))}, "news.de-en")
    problem = registry.problem(
        "parallel_text", "source_language=en,target_language=de,train=news.de-en"
    )
    (pair,) = problem.files(tmp_path)["train"]
    paths = {"news.de-en.tsv": tmp_path / "news.de-en.tsv"}
    ((first, second),) = plain_text([pair], paths, tmp_path)
    assert (first.read_bytes(), second.read_bytes()) == (lines(1), lines(0))
    assert first.suffix == ".de"


def test_several_files_and_one_format_each(tmp_path):
    config = "source_language=en,target_language=de,train=europarl + news"
    write(tmp_path, FORMATS["plain"], "europarl")
    write(tmp_path, FORMATS["tmx.gz"], "news")
    problem = registry.problem("parallel_text", config)
    names = [pair.source.name for pair in problem.files(tmp_path)["train"]]
    assert names == ["europarl.en", "news.tmx.gz"]
    write(tmp_path, FORMATS["tsv"], "news")
    with pytest.raises(UserError, match=r"more than one format: news\.tsv, .* and news\.tmx\.gz"):
        problem.files(tmp_path)


@pytest.mark.parametrize("kind", ["tmx", "sgm.gz"])
def test_files_of_one_name_in_two_folders(tmp_path, kind):
    for folder in ("europarl", "news"):
        write(tmp_path / folder, FORMATS[kind], "en-de")
    write(tmp_path, FORMATS["plain"], "dev")
    config = "source_language=en,target_language=de,vocab_size=300,train=europarl/en-de+news/en-de"
    problem = registry.problem("parallel_text", config)
    generate(problem, tmp_path / "data", tmp_path)
    assert len(open_generated(problem, tmp_path / "data").store("train")) == 2 * len(PAIRS)


def test_lines_without_two_columns_are_left_out_and_counted(tmp_path, capsys):
    write(tmp_path, FORMATS["plain"], "dev")
    (tmp_path / "train.tsv").write_bytes(b"\nno tab\n" + tsv() + b"a\tb\tc\n")
    problem = registry.problem(
        "parallel_text", "source_language=en,target_language=de,vocab_size=300"
    )
    train = generate(problem, tmp_path / "data", tmp_path)["splits"]["train"]
    assert train["examples"] == len(PAIRS)
    said = "train.tsv: 3 lines have not two columns (line 1 has 1): they are left out."
    assert said in capsys.readouterr().out
    left_out = train["left_out"]["with an empty side"]
    assert left_out["count"] == 3
    places = [f"train.tsv.en:{line}" for line in (1, 2, 3 + len(PAIRS))]
    assert [place.partition("/")[2] for place in left_out["first"]] == places


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
    "dev/dev-src.en.sgm": sgml(0, "srcset"),
    "./training/text.de": lines(1),
    "dev/dev-ref.de.sgm": sgml(1, "refset"),
    "dev/dev.de": lines(1),
}


def test_archives(tmp_path, monkeypatch):
    archive(tmp_path / "a.tgz", MEMBERS)
    paths = {"a.tgz": tmp_path / "a.tgz"}
    plain = plain_text(ARCHIVED, paths, tmp_path)
    for source, target in plain:
        assert (source.read_bytes(), target.read_bytes()) == (lines(0), lines(1))
    # The plain member where there is one, and no other is written.
    assert [path.name for path in plain[1]] == ["dev-src.en", "dev.de"]
    assert {path.name for path in plain[0][0].parent.iterdir()} == {
        "text.en", "text.de", "dev-src.en", "dev.de"
    }  # fmt: skip

    # What is there is not read again; what is missing is.
    def no_reading(*_):
        raise AssertionError

    with monkeypatch.context() as patch:
        patch.setattr(module, "read_members", no_reading)
        assert plain_text(ARCHIVED, paths, tmp_path) == plain
        plain[0][1].unlink()
        with pytest.raises(AssertionError):
            plain_text(ARCHIVED, paths, tmp_path)
    assert plain_text(ARCHIVED, paths, tmp_path) == plain
    # Another archive under the name is another text, and the old text goes.
    archive(tmp_path / "a.tgz", {**MEMBERS, "./training/text.en": b"new\n"})
    os.utime(tmp_path / "a.tgz", (1, 1))
    again = plain_text(ARCHIVED, paths, tmp_path)
    assert again[0][0].read_bytes() == b"new\n"
    assert not plain[0][0].exists()
    assert len(list((tmp_path / FOLDER).iterdir())) == 1


def test_faults_name_the_file(tmp_path):
    paths = {"a.tgz": tmp_path / "a.tgz"}
    archive(paths["a.tgz"], {"training/text.en": lines(0)})
    with pytest.raises(UserError, match=r"a\.tgz does not hold text\.de\. Is it the archive of"):
        plain_text(ARCHIVED[:1], paths, tmp_path)
    archive(paths["a.tgz"], {**MEMBERS, "big": os.urandom(100_000), "training/last.de": b"x"})
    content = paths["a.tgz"].read_bytes()
    paths["a.tgz"].write_bytes(content[: len(content) // 2])
    late = [ParallelFiles(ARCHIVED[0].source, SourceFile("a.tgz", size=5, members=("last.de",)))]
    with pytest.raises(UserError, match=r"a\.tgz is damaged or cut off .*bytes.*Get it again"):
        plain_text(late, paths, tmp_path)
    paths["a.tgz"].write_bytes(b"no archive at all")
    with pytest.raises(UserError, match=r"a\.tgz is damaged"):
        plain_text(ARCHIVED[:1], paths, tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.tsv", b"a\tb\tc\nd\n", r"x\.tsv has no line of two columns: line 1 has 3\. source<tab"),
        # Without the time of its making, or every process would give the test another name.
        (
            "x.tsv.gz",
            gzip.compress(b"a\tb\n" * 999, mtime=0)[:-9],
            r"x\.tsv\.gz is damaged or cut off",
        ),
        ("x.tsv.gz", b"a\tb\n", r"x\.tsv\.gz is damaged .*Not a gzipped file"),
        ("x.tmx", b"<tmx><body>", r"x\.tmx:1: not well-formed"),
    ],
)
def test_a_fault_leaves_nothing(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    pair = ParallelFiles(SourceFile(name), SourceFile(name), LANGUAGES)
    with pytest.raises(UserError, match=message):
        plain_text([pair], {name: tmp_path / name}, tmp_path)
    (folder,) = (tmp_path / FOLDER).iterdir()
    assert list(folder.iterdir()) == []


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "x.tsv").write_bytes(tsv())
    (tmp_path / FOLDER).write_text("a file where a folder should be")
    pair = ParallelFiles(SourceFile("x.tsv"), SourceFile("x.tsv"), LANGUAGES)
    with pytest.raises(UserError, match=r"plain_text.* cannot be read or written"):
        plain_text([pair], {"x.tsv": tmp_path / "x.tsv"}, tmp_path)
