import io
import re

import pytest

from t2t_keras.bin import t2t_query_server


@pytest.fixture
def query(server, protocol):
    """query(*flags): runs the command."""

    def query(*flags):
        common = [f"--server={server.address}", f"--protocol={protocol}", "--servable_name=ende"]
        t2t_query_server.run(["t2t-query-server", *common, *flags])

    return query


def test_once(query, server, capsys):
    query("--inputs_once=A dog.", "--servable_version=3", "--metadata=user=me,token=a=b")
    assert capsys.readouterr().out == "\nInput:\nA dog.\n\nOutput (Score -0.500):\nA DOG.\n\n"
    ((_, version, _, texts, metadata),) = server.requests
    assert (version, texts, metadata["token"]) == (3, ["A dog."], "a=b")
    query("--inputs_once=A long dog.")
    *_, left_out = capsys.readouterr().out.splitlines()
    assert re.findall(r"\d+", left_out) == ["1"]


def test_files(query, server, tmp_path, capsys):
    source, target = tmp_path / "news.en", tmp_path / "new" / "news.de"
    source.write_text("one\n\ntwo long\nthree", encoding="utf-8")
    query(f"--input_file={source}", f"--output_file={target}", "--batch_size=2", "--concurrency=3")
    assert target.read_text("utf-8") == "ONE\n\nTWO LONG\nTHREE\n"
    captured = capsys.readouterr()
    assert captured.out == f"{target}: 4 lines\n"
    assert re.findall(r"\d+", captured.err) == ["1"], "too long"
    assert sorted(request[3] for request in server.requests) == [["one"], ["two long", "three"]]


class Input(io.TextIOWrapper):
    """Standard input of some bytes, in a locale without UTF-8; a terminal or not."""

    def __init__(self, content, is_terminal):
        super().__init__(io.BytesIO(content), "latin-1")
        self.isatty = lambda: is_terminal


@pytest.mark.parametrize(
    ("files", "is_terminal"),
    [([], False), (["--input_file=-"], True), (["--output_file=-"], True)],
)
def test_standard_input(query, files, is_terminal, monkeypatch, capsysbinary):
    monkeypatch.setattr("sys.stdin", Input("ä\nb\tc\nd long\nlong\n".encode(), is_terminal))
    query(*files)
    captured = capsysbinary.readouterr()
    # What is said about them is not among the translations.
    assert captured.out.decode() == "Ä\nB C\nD LONG\nLONG\n"
    # Line breaks that became spaces, and lines that were cut.
    assert re.findall(rb"\d+", captured.err) == [b"1", b"2"]


def test_interactive_lines(query, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", Input(b"\xc3\xb6ne\n\nbad\n\xff\n\x1b[2J\n", is_terminal=True))
    query()
    output = capsys.readouterr().out
    assert output.index("\nÖNE\n") < output.index("INVALID_ARGUMENT") < output.index("\\x1b[2J\n")
    assert "\x1b]0;" not in output  # of the server's error


def test_an_older_file_stays_until_there_is_an_answer(query, server, tmp_path):
    source, target = tmp_path / "news.en", tmp_path / "news.de"
    source.write_text("one\n")
    target.write_text("old\n")
    files = [f"--input_file={source}", f"--output_file={target}"]
    server.plan.extend(["UNAVAILABLE"] * 2)
    with pytest.raises(SystemExit):
        query(*files, "--max_attempts=2")
    assert target.read_text() == "old\n"
    source.write_text("")
    query(*files)
    assert target.read_text() == ""


@pytest.mark.parametrize("protocol", ["grpc"], indirect=True)
@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--inputs_once=a", "--input_file=b"], "--input_file"),
        (["--inputs_once=a", "--metadata=key"], "--metadata"),
        (["--inputs_once=a", "--tls_ca_file=b"], "--tls"),
        (["--inputs_once="], "--inputs_once"),
        (["--inputs_once=\udcff"], r"\udcff"),
        (["--input_file=none/at/all"], "none/at/all"),
        (["--output_file=/"], "/"),
    ],
)
def test_wrong_flags(query, server, flags, message, capsys):
    with pytest.raises(SystemExit) as stop:
        query(*flags)
    assert stop.value.code == 2
    assert message in capsys.readouterr().err
    assert not server.requests
