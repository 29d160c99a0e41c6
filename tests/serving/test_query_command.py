"""t2t-query-server against the stand-in for TensorFlow Serving."""

import pytest

from t2t_keras.bin import t2t_query_server


@pytest.fixture
def query(server):
    """query(*flags): runs the command over gRPC."""

    def query(*flags):
        address = f"--server=127.0.0.1:{server['grpc']}"
        t2t_query_server.run(["t2t-query-server", address, "--servable_name=translate", *flags])

    return query


def test_a_file_over_grpc(query, translator, lines, tmp_path, capsys):
    source, target = tmp_path / "in", tmp_path / "out"
    source.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    files = [f"--input_file={source}", f"--output_file={target}", "--batch_size=3"]
    query(
        *files,
        "--concurrency=2",
        "--timeout_secs=60",
        "--max_attempts=3",
        "--metadata=x-fail=command:2:UNAVAILABLE",
    )
    expected = "".join(f"{translation.text}\n" for translation in translator.translate(lines))
    assert target.read_text("utf-8") == expected
    for flags, message in (
        (["--max_attempts=1", "--metadata=x-fail=once:1:UNAVAILABLE"], "It was tried 1 times"),
        (["--timeout_secs=0.3", "--metadata=x-delay=2"], "no answer within 0.3 s (attempt 1)"),
    ):
        with pytest.raises(SystemExit) as caught:
            query(*files, *flags)
        assert caught.value.code == 2
        assert message in capsys.readouterr().err
    # Nothing was answered, so nothing was written over.
    assert target.read_text("utf-8") == expected
