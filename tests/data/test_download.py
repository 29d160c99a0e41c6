import dataclasses
import errno
import gzip
import hashlib
import http.server
import threading

import pytest

from t2t_keras.data import download
from t2t_keras.data.download import fetch
from t2t_keras.data.problem import SourceFile
from t2t_keras.errors import UserError

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
        self.server.asked.append(self.path)
        content = PAGES.get(self.path)
        if content is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[:-1000] if self.path == "/breaks_off" else content)

    def log_message(self, *_):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    server.asked = []
    server.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def known(name, url):
    return SourceFile(name, url, len(CONTENT), hashlib.sha256(CONTENT).hexdigest())


def names(directory):
    return sorted(path.name for path in directory.iterdir())


@pytest.mark.parametrize("page", ["train.en", "train.de.gz", "two_parts.gz"])
def test_downloads_checks_and_unpacks(server, tmp_path, page):
    file = known(page.removesuffix(".gz"), f"{server.address}/{page}")
    paths = fetch([file, file], tmp_path / "new" / "folder")
    assert paths[file.name].read_bytes() == CONTENT
    assert names(tmp_path / "new" / "folder") == [file.name]
    assert server.asked == [f"/{page}"]


def test_a_gz_file_wanted_as_such_is_not_unpacked(server, tmp_path):
    file = SourceFile("train.de.gz", f"{server.address}/train.de.gz")
    assert fetch([file], tmp_path)["train.de.gz"].read_bytes() == PAGES["/train.de.gz"]


def test_a_file_that_is_there_is_used_as_it_is(server, tmp_path):
    (tmp_path / "train.en").write_text("my own\n")
    paths = fetch([known("train.en", f"{server.address}/train.en")], tmp_path)
    assert paths["train.en"].read_text() == "my own\n"
    assert server.asked == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"size": 17}, rf"{len(CONTENT):,} bytes came, 17 bytes expected"),
        ({"sha256": "0" * 64}, rf"sha256 \w+ came, sha256 {'0' * 64} expected"),
        (
            {"sha256": "", "md5": "0" * 32},
            rf"md5 {hashlib.md5(CONTENT).hexdigest()} came, md5 {'0' * 32} expected",
        ),
    ],
)
def test_another_content_than_expected(server, tmp_path, change, message):
    file = dataclasses.replace(known("train.en", f"{server.address}/train.en"), **change)
    with pytest.raises(UserError, match=message):
        fetch([file], tmp_path)
    assert names(tmp_path) == []


@pytest.mark.parametrize("page", ["cut.gz", "not_gzip.gz", "breaks_off", "missing"])
def test_a_download_that_fails_lists_all_that_is_missing(server, tmp_path, page):
    (tmp_path / "have").write_text("")
    files = [
        SourceFile("have"),
        known("first", f"{server.address}/train.de.gz"),
        known("second", f"{server.address}/{page}"),
        SourceFile("third", f"{server.address}/third"),
    ]
    with pytest.raises(UserError) as caught:
        fetch(files, tmp_path)
    head, second, third = str(caught.value).splitlines()
    assert str(tmp_path) in head
    assert f"{server.address}/{page} cannot be downloaded" in head
    assert second.startswith(f"  second  ({server.address}/{page}, ")
    assert f"{len(CONTENT):,} bytes, sha256 {files[2].sha256}" in second
    assert ("unpacked" in second) == page.endswith(".gz")
    assert third == f"  third  ({server.address}/third)"
    assert names(tmp_path) == ["first", "have"]


def test_no_network(tmp_path):
    # Nothing listens on the port of a server that is closed.
    with http.server.HTTPServer(("127.0.0.1", 0), Pages) as closed:
        address = f"http://127.0.0.1:{closed.server_port}"
    files = [SourceFile(name, f"{address}/{name}") for name in ("train.en", "train.de")]
    with pytest.raises(UserError, match=r"(?s)cannot be downloaded.*train\.en.*train\.de"):
        fetch(files, tmp_path)


def test_files_without_an_address_are_listed_before_anything_is_downloaded(server, tmp_path):
    files = [known("train.en", f"{server.address}/train.en"), SourceFile("mine.de")]
    with pytest.raises(UserError, match=r"(?s)train\.en.*mine\.de  \(your own file\)"):
        fetch(files, tmp_path / "not_there")
    assert server.asked == []
    assert not (tmp_path / "not_there").exists()


def test_a_full_disk(server, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(download.shutil, "copyfileobj", full)
    with pytest.raises(UserError, match=r"train\.en cannot be written: No space left"):
        fetch([known("train.en", f"{server.address}/train.en")], tmp_path)
    assert names(tmp_path) == []
