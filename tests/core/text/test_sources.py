import dataclasses
import gzip
import hashlib
import http.server
import resource
import threading

import pytest
from refusals import refused

from t2t_keras.text.sources import ParallelFiles, SourceFile, downloads, fetch

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
    ("change", "found"),
    [
        ({"size": 17}, f"{len(CONTENT):,}"),
        ({"sha256": "0ff"}, hashlib.sha256(CONTENT).hexdigest()),
        ({"md5": "0ff"}, hashlib.md5(CONTENT).hexdigest()),
    ],
)
def test_another_content_than_expected(server, tmp_path, change, found):
    file = dataclasses.replace(known("train.en", f"{server.url}/train.en"), **change)
    with refused("other_checksum", file.url, *change.values(), found):
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
