"""Downloads, archives and data sets become the same plain text, whatever their format."""

import dataclasses
import gzip
import hashlib
import http.server
import os
import resource
import sys
import threading
import types

import pytest
import small_wmt
from refusals import refused
from small_wmt import archive, plain, sgml

from t2t_keras.data.dataset import open_generated
from t2t_keras.data.generate import generate
from t2t_keras.data.problem import make_problem
from t2t_keras.text.sources import (
    PLAIN_TEXT_FOLDER,
    ParallelFiles,
    PreparedText,
    SourceFile,
    dataset_directory,
    default_data_dir,
    downloads,
    fetch,
    manual_directory,
    plain_text,
    prepared_lines,
)

CONTENT = "".join(f"line {n} größer\n" for n in range(20_000)).encode()
PAGES = {
    "/train.en": CONTENT,
    "/train.de.gz": gzip.compress(CONTENT),
    "/two_parts.gz": gzip.compress(CONTENT[:1000]) + gzip.compress(CONTENT[1000:]),
    "/cut.gz": gzip.compress(CONTENT)[:-500],
    "/not_gzip.gz": CONTENT,
    "/breaks_off": CONTENT,
}


class Pages(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.requested.append(self.path)
        content = PAGES.get(self.path, b"")
        self.send_response(200 if content else 404)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[:-1000] if self.path == "/breaks_off" else content)

    def log_message(self, *_):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        server.requested = []
        server.url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        yield server
        server.shutdown()


def known(name, url):
    return SourceFile(name, url, len(CONTENT), hashlib.sha256(CONTENT).hexdigest())


def names(directory):
    return sorted(path.name for path in directory.iterdir())


@pytest.mark.parametrize(
    ("file", "corpus", "name"),
    [
        (SourceFile("europarl-v7.de-en.en"), "", "europarl-v7"),
        (SourceFile("news/train.v2.en.gz"), "", "train"),
        (SourceFile("a.tgz", members=("dev/news.de-en.en", "other.en")), "", "news"),
        (SourceFile("a.tgz", members=("dev/news.de-en.en",)), "mine.v1", "mine.v1"),
    ],
)
def test_what_a_mixture_calls_a_text(file, corpus, name):
    assert ParallelFiles(file, file, corpus=corpus).corpus_name == name


def test_a_table_of_downloads(tmp_path):
    table = tmp_path / "table.tsv"
    table.write_text("name\turl\tsize\tsha256\na.en\thttp://a/a.en\t12\tff\nb.en\t\t\t\n")
    assert downloads(table) == {
        "a.en": SourceFile("a.en", "http://a/a.en", 12, "ff"),
        "b.en": SourceFile("b.en"),
    }


def test_missing_files_are_named_first(tmp_path):
    files = [SourceFile("a.en"), SourceFile("a.de")]
    for folder in (tmp_path / "no", tmp_path):
        with refused("missing_source_files", f" {folder}: ", "\n  a.en ", "\n  a.de "):
            fetch(files, folder)


@pytest.mark.parametrize("page", ["train.en", "train.de.gz", "two_parts.gz"])
def test_downloads_checks_and_unpacks(server, tmp_path, page):
    file = known(page.removesuffix(".gz"), f"{server.url}/{page}")
    folder = tmp_path / "new" / "folder"
    as_it_is = SourceFile(f"as_it_is_{page}", f"{server.url}/{page}")
    fetch([file, file, as_it_is], folder)
    assert (folder / file.name).read_bytes() == CONTENT
    assert (folder / as_it_is.name).read_bytes() == PAGES[f"/{page}"]
    assert server.requested == [f"/{page}"] * 2


@pytest.mark.parametrize(
    ("change", "actual"),
    [
        ({"size": 17}, f"{len(CONTENT):,}"),
        ({"sha256": "0ff"}, hashlib.sha256(CONTENT).hexdigest()),
        ({"md5": "0ff"}, hashlib.md5(CONTENT).hexdigest()),
    ],
)
def test_another_content_than_expected(server, tmp_path, change, actual):
    file = dataclasses.replace(known("train.en", f"{server.url}/train.en"), **change)
    with refused("other_checksum", file.url, *change.values(), actual):
        fetch([file], tmp_path)
    assert names(tmp_path) == []


@pytest.mark.parametrize("page", ["cut.gz", "not_gzip.gz", "breaks_off", "missing"])
def test_a_download_that_fails_lists_all_that_is_missing(server, tmp_path, page):
    (tmp_path / "have").write_text("")
    files = [
        known("have", f"{server.url}/train.en"),  # It is used as it is.
        known("first", f"{server.url}/train.de.gz"),
        known("second", f"{server.url}/{page}"),
        SourceFile("third", f"{server.url}/third"),
    ]
    with refused("missing_source_files", f"{tmp_path}: ", f"{server.url}/{page}") as caught:
        fetch(files, tmp_path)
    unpacked = "unpacked, " if page.endswith(".gz") else ""
    facts = f"{unpacked}bytes {len(CONTENT):,}, sha256 {files[2].sha256}"
    assert str(caught.value).splitlines()[1:] == [
        f"  second  ({server.url}/{page}, {facts})",
        f"  third  ({server.url}/third)",
    ]
    assert names(tmp_path) == ["first", "have"]


def test_files_without_a_url_are_listed_before_anything_is_downloaded(server, tmp_path):
    files = [known("train.en", f"{server.url}/train.en"), SourceFile("mine.de")]
    with refused("missing_source_files", "\n  train.en ", "\n  mine.de "):
        fetch(files, tmp_path)
    assert server.requested == names(tmp_path) == []


def test_a_file_that_cannot_be_written(server, tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with refused("not_written", tmp_path / "train.en"):
            fetch([known("train.en", f"{server.url}/train.en")], tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert names(tmp_path) == []


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
    texts = plain_text(ARCHIVED, tmp_path)
    for source, target in texts:
        assert (source.read_bytes(), target.read_bytes()) == (ENGLISH, GERMAN)
    # Without content, but with the size and the time that tell whether it is the same.
    path.write_bytes(bytes(status.st_size))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert plain_text(ARCHIVED, tmp_path) == texts
    texts[0][1].unlink()
    with refused("missing_members", "a.tgz", "text.de"):
        plain_text(ARCHIVED, tmp_path)
    # Another archive under the name is another text, which replaces that of the first.
    archive(path, {**MEMBERS, "./training/text.en": b"new\n"})
    ((source, target), _) = plain_text(ARCHIVED, tmp_path)
    assert (source.read_bytes(), target.read_bytes()) == (b"new\n", GERMAN)
    assert [source.parent] == list((tmp_path / PLAIN_TEXT_FOLDER).iterdir()) != [texts[0][0].parent]


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
    (folder,) = (tmp_path / PLAIN_TEXT_FOLDER).iterdir()
    assert list(folder.iterdir()) == []


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / PLAIN_TEXT_FOLDER).write_text("a file where a folder should be")
    (tmp_path / "x.tsv").write_bytes(TSV)
    with refused("not_read", PLAIN_TEXT_FOLDER, "--tmp_dir"):
        plain_text([ParallelFiles(*[SourceFile("x.tsv")] * 2, LANGUAGES)], tmp_path)


ARCHIVES = (
    "training-parallel-europarl-v7.tgz",
    "training-parallel-commoncrawl.tgz",
    "training-parallel-nc-v9.tgz",
    "dev.tgz",
)
TEXTS = {
    split: tuple(small_wmt.lines(code, *text) for code in ("en", "de"))
    for split, text in {"dev": ("newstest2013", 15), "test": ("full", 14)}.items()
}
PREPARED = "wmt14_translate/de-en/1.0.0/dataset_info.json"


@pytest.fixture
def data_dir(tmp_path, monkeypatch):
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path / "tfds"))
    return tmp_path / "tfds"


def touch(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()


def test_where_the_text_comes_from(data_dir, tmp_path):
    def decided(name="translate_ende"):
        return make_problem(name).resolved(tmp_path).text_source

    for name in ARCHIVES:
        # Before all of them are there tensorflow-datasets would try to download the rest.
        assert decided() == "archives"
        touch(manual_directory(data_dir) / name)
    assert (decided(), decided("translate_enfr")) == ("tfds", "archives")
    (manual_directory(data_dir) / ARCHIVES[0]).unlink()
    touch(data_dir / PREPARED)
    assert decided() == "tfds"
    (tmp_path / ARCHIVES[1]).touch()
    assert decided() == "archives"
    asked = make_problem("translate_ende", "text_source=tfds").resolved(tmp_path)
    assert asked.text_source == "tfds"


def test_the_newest_version_is_that_of_the_largest_numbers(data_dir):
    text = PreparedText("wmt14_translate/de-en", "train", ("en", "de"), data_dir)
    assert text.newest_directory() is None
    for version in ("1.9.0", "1.10.0", "1.2.0"):
        touch(data_dir / text.dataset / version / "dataset_info.json")
    (data_dir / text.dataset / "2.0.0").mkdir()  # It is still being prepared.
    assert text.newest_directory().name == "1.10.0"


def test_without_a_setting_it_is_in_the_home_folder(monkeypatch):
    monkeypatch.delenv("TFDS_DATA_DIR", raising=False)
    monkeypatch.setenv("HOME", "/home/a")
    assert str(default_data_dir()) == "/home/a/tensorflow_datasets"


def test_without_tensorflow_datasets(data_dir, tmp_path, monkeypatch):
    touch(data_dir / PREPARED)
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", None)
    with refused("missing_package", "pip install -e '.[tfds]'"):
        generate(make_problem("translate_ende"), tmp_path, tmp_path)


def test_nothing_is_downloaded(data_dir, tmp_path):
    problem = make_problem("translate_ende", "text_source=tfds")
    touch(manual_directory(data_dir) / ARCHIVES[0])
    with refused("missing_source_files", "wmt14_translate/de-en ") as error:
        generate(problem, tmp_path, tmp_path)
    assert [line.split()[0] for line in str(error.value).splitlines()[1:]] == list(ARCHIVES[1:])


def test_lines_are_lines_and_what_cannot_be_prepared_is_refused(data_dir, monkeypatch):
    examples = [{"de": b"eins\nzwei ", "en": b"one &amp; two"}]
    split = types.SimpleNamespace(as_numpy_iterator=lambda: iter(examples))
    builder = types.SimpleNamespace(as_dataset=lambda split, shuffle_files: splits[split])
    module, splits = types.SimpleNamespace(builder=lambda name, data_dir: builder), {"train": split}
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", module)
    text = PreparedText("some/de-en", "train", ("de", "en"), data_dir)
    assert list(prepared_lines(text)) == [(b"eins zwei ", b"one &amp; two")]
    text = dataclasses.replace(text, has_entities=True)
    assert list(prepared_lines(text)) == [(b"eins zwei", b"one & two")]
    with refused("missing_source_files", "some/de-en ", data_dir):
        dataset_directory(text)


@pytest.mark.filterwarnings("ignore")  # Those of tensorflow-datasets and what it imports.
def test_archives_put_there_by_hand(data_dir, tmp_path, monkeypatch, capsys):
    tfds = pytest.importorskip("tensorflow_datasets")
    manual = manual_directory(data_dir)
    manual.parent.mkdir(parents=True)
    small_wmt.write_archives(manual)
    builder = type(tfds.builder("wmt14_translate/de-en", data_dir=data_dir))
    # It knows the checksums of the official archives; these are others.
    infos = {}
    for url, info in builder.url_infos.items():
        if (manual / info.filename).exists():
            content = (manual / info.filename).read_bytes()
            infos[url] = dataclasses.replace(
                info, size=len(content), checksum=hashlib.sha256(content).hexdigest()
            )
    monkeypatch.setattr(builder, "url_infos", infos)
    problem = make_problem("translate_ende", "vocab_size=340")
    generate(problem, tmp_path, tmp_path)
    generated = open_generated(problem, tmp_path)
    assert generated.problem.text_source == "tfds"
    for split, text in TEXTS.items():
        assert generated.text(split) == text
    assert len(generated.open_examples("train")) == 120 + 60 + 40

    # Without the archive, what tensorflow-datasets has made of it is taken.
    (manual / "dev.tgz").unlink()
    capsys.readouterr()
    splits = problem.files(tmp_path)
    for split, text in TEXTS.items():
        (paths,) = plain_text(splits[split], tmp_path)
        for path, lines in zip(paths, text, strict=True):
            assert sorted(path.read_text().splitlines()) == sorted(lines)
        assert "wmt14_translate/de-en" in capsys.readouterr().out
