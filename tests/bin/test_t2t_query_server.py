"""The command, against a few lines of HTTP that answer as TensorFlow Serving does."""

import http.server
import io
import json
import threading
import typing

import pytest

from t2t_keras.bin import t2t_query_server


class Upper(http.server.BaseHTTPRequestHandler):
    """Translates into capitals; keeps what came."""

    came: typing.ClassVar[list] = []

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.came.append((self.path, asked, dict(self.headers)))
        texts = asked["inputs"]["text"]
        status, answer = (
            200,
            {
                "outputs": {
                    "translation": [text.upper() for text in texts],
                    "score": [-0.5] * len(texts),
                    "cut": [int("long" in text) for text in texts],
                }
            },
        )
        if "bad" in texts:
            status, answer = 400, {"error": "bad input"}
        content = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    """ "host:port" of the server; `Upper.came` is empty."""
    Upper.came.clear()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Upper) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def query(server):
    """query(*flags): runs the command over REST."""

    def query(*flags):
        common = [f"--server={server}", "--protocol=rest", "--servable_name=ende"]
        t2t_query_server.run(["t2t-query-server", *common, *flags])

    return query


def test_once(query, capsys):
    query(
        "--inputs_once=A dog.",
        "--servable_version=3",
        "--signature_name=other",
        "--metadata=user=me,token=a=b",
    )
    assert capsys.readouterr().out == "\nInput:\nA dog.\n\nOutput (Score -0.500):\nA DOG.\n\n"
    ((path, asked, headers),) = Upper.came
    assert path == "/v1/models/ende/versions/3:predict"
    assert asked == {"signature_name": "other", "inputs": {"text": ["A dog."]}}
    assert (headers["user"], headers["token"]) == ("me", "a=b")


def test_files(query, tmp_path, capsys):
    source, target = tmp_path / "news.en", tmp_path / "new" / "news.de"
    source.write_text("one\n\ntwo long\nthree", encoding="utf-8")
    query(f"--input_file={source}", f"--output_file={target}", "--batch_size=2", "--concurrency=2")
    assert target.read_text("utf-8") == "ONE\n\nTWO LONG\nTHREE\n"
    captured = capsys.readouterr()
    assert captured.out == f"{target}: 4 lines\n"
    assert captured.err == "1 lines were too long and were cut.\n"
    texts = sorted(asked["inputs"]["text"] for _, asked, _ in Upper.came)
    assert texts == [["one"], ["two long", "three"]]


def test_standard_input(query, monkeypatch, capsysbinary):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("ä\nb\n".encode())))
    query()
    assert capsysbinary.readouterr().out.decode() == "Ä\nB\n"


def test_what_is_typed(query, monkeypatch, capsys):
    class Terminal(io.TextIOWrapper):
        def isatty(self):
            return True

    monkeypatch.setattr("sys.stdin", Terminal(io.BytesIO(b"one\n\nbad\n\xff\ntwo\n")))
    query()
    output = capsys.readouterr().out
    assert "Output (Score -0.500):\nONE\n" in output
    assert "refused the request: HTTP 400: bad input" in output
    assert "(This line is not UTF-8.)" in output
    assert output.index("bad input") < output.index("TWO")


def test_what_was_translated_before_an_error_is_kept(query, tmp_path, capsys):
    source, target = tmp_path / "news.en", tmp_path / "news.de"
    source.write_text("one\ntwo\nbad\nthree\n", encoding="utf-8")
    with pytest.raises(SystemExit) as caught:
        query(f"--input_file={source}", f"--output_file={target}", "--batch_size=1")
    assert caught.value.code == 2
    assert target.read_text("utf-8") == "ONE\nTWO\n"
    error = capsys.readouterr().err
    assert "bad input" in error
    assert "end before line 3" in error


def test_an_older_file_stays_until_there_is_an_answer(query, tmp_path, capsys):
    source, target = tmp_path / "news.en", tmp_path / "news.de"
    target.write_text("old\n")
    source.write_text("bad\n")
    with pytest.raises(SystemExit):
        query(f"--input_file={source}", f"--output_file={target}")
    assert target.read_text() == "old\n"
    source.write_text("")
    query(f"--input_file={source}", f"--output_file={target}")
    assert target.read_text() == ""
    source.write_text("one\n")
    with pytest.raises(SystemExit):
        query(f"--input_file={source}", f"--output_file={tmp_path}")
    assert "translation of line 1 cannot be written: Is a directory" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--inputs_once=a", "--input_file=b"], "exclude each other"),
        (["--inputs_once=a", "--tls_ca_file=b"], "need --tls"),
        (["--inputs_once=a", "--metadata=key"], "not of the form key=value"),
        (["--inputs_once="], "--inputs_once is blank"),
        (["--inputs_once=\udcff"], "Text 1 is not UTF-8"),
        (["--input_file=none/at/all"], "none/at/all cannot be opened: No such file"),
        (["--protocol=soap"], "protocol"),
        (["--batch_size=0"], "batch_size"),
        (["--server="], "Please give --server"),
    ],
)
def test_wrong_flags(query, flags, message, capsys):
    with pytest.raises(SystemExit) as caught:
        query(*flags)
    assert caught.value.code == 2
    assert message in capsys.readouterr().err
    assert not Upper.came


def test_a_file_is_not_written_over_itself(query, tmp_path, capsys):
    path = tmp_path / "text"
    path.write_text("one\n", encoding="utf-8")
    with pytest.raises(SystemExit):
        query(f"--input_file={path}", f"--output_file={path}")
    assert "same file" in capsys.readouterr().err
    assert path.read_text("utf-8") == "one\n"
