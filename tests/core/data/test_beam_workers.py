"""Apache Beam's direct runner makes the data that worker processes make, and fails as they do."""

import dataclasses
import errno
import socket
import types
from pathlib import Path

import pytest
from refusals import refused

from t2t_keras.data import beam_workers
from t2t_keras.data.generate import generate
from t2t_keras.data.problem import make_problem
from t2t_keras.errors import TRY_AGAIN_STATUS, UserError

pytest.importorskip("apache_beam", reason="needs apache-beam")
BEAM = dict(chunk_pairs=50, beam_runner="DirectRunner")


def double(number):
    return 2 * number


def fail():
    raise ValueError("the first line\nthe last line")


def interrupt():
    raise KeyboardInterrupt


def try_again():
    raise UserError("Come back later.", TRY_AGAIN_STATUS)


@pytest.fixture
def call(tmp_path):
    with beam_workers.beam_workers("DirectRunner", [], tmp_path, []) as call:
        yield call


def test_the_data_is_the_same_byte_for_byte(problem, tmp_dir, tmp_path, change, contents):
    first = (tmp_dir / "train.en").read_bytes(), (tmp_dir / "train.de").read_bytes()
    for code, text in zip(("en", "de"), first, strict=True):
        change(f"train.{code}", {n: text.split(b"\n")[n // 2] for n in range(60, 200, 7)})
    problem = dataclasses.replace(problem, filters=("duplicates", "length_ratio"))
    for name, options in (("local", dict(chunk_pairs=50)), ("beam", BEAM)):
        manifest = generate(problem, tmp_path / name, tmp_dir, **options)
    assert manifest["splits"]["train"]["left_out"]["that came before"]["count"] == 20
    assert len(manifest["splits"]["train"]["shards"]) == 5
    local, beam = (contents(tmp_path / name / problem.name) for name in ("local", "beam"))
    assert local == beam


def test_after_a_full_disk_finished_shards_are_kept(
    problem, tmp_dir, tmp_path, contents, monkeypatch, capsys
):
    replace = Path.replace

    def fail(path, target):
        if target.name == "train-00003.tokens.npy":
            raise OSError(errno.ENOSPC, "No space left")
        return replace(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", fail)
        with refused("not_written", "00003.tokens.npy", f"(On {socket.gethostname()}.)"):
            generate(problem, tmp_path / "beam", tmp_dir, **BEAM)
    directory = tmp_path / "beam" / problem.name
    assert not list(directory.glob("beam-calls*"))
    num_shards = len(list(directory.glob("train-*.json")))
    assert num_shards > 0
    (directory / "beam-calls.killed").mkdir()
    generate(problem, tmp_path / "beam", tmp_dir, **BEAM)
    assert f" {num_shards} of 5" in capsys.readouterr().out
    generate(problem, tmp_path / "local", tmp_dir, chunk_pairs=50)
    assert contents(directory) == contents(tmp_path / "local" / problem.name)


def test_results_are_in_the_order_of_the_calls(call):
    assert list(call(double, ((n,) for n in range(20)))) == list(range(0, 40, 2))
    assert list(call(double, [])) == []


def test_what_workers_raise(call, tmp_path):
    host = f"(On {socket.gethostname()}.)"
    with refused("not_read", "/none", host):
        list(call(Path.read_bytes, [(tmp_path / "none",)]))
    with refused("unknown_name", "'nonsense'", host):
        list(call(make_problem, [("nonsense",)]))
    with refused("bad_input", host) as error:
        list(call(try_again, [()]))
    assert error.value.exit_status == TRY_AGAIN_STATUS
    with refused("pipeline_failed", "DirectRunner", " ValueError: the last line") as error:
        list(call(fail, [()]))
    assert str(error.value).endswith("the last line")
    with pytest.raises(KeyboardInterrupt):
        list(call(interrupt, [()]))


def test_a_pipeline_is_cancelled_by_ctrl_c(tmp_path, monkeypatch):
    running = types.SimpleNamespace(wait_until_finish=interrupt, cancel=lambda: done.append("it"))
    done, workers = [], beam_workers.beam_workers("DirectRunner", [], tmp_path, [])
    monkeypatch.setattr("apache_beam.Pipeline.run", lambda pipeline: running)
    with pytest.raises(KeyboardInterrupt):
        workers.__enter__()
    assert done == ["it"]


@pytest.fixture
def ask(tmp_path, monkeypatch):
    """ask(file, name, found): has a worker find something else of all paths, and asks it."""

    def ask(file, name="", method=None):
        with monkeypatch.context() as patch:
            if name:
                patch.setattr(Path, name, method)
            with beam_workers.beam_workers("DirectRunner", [], tmp_path, [file]):
                pass

    return ask


def test_a_worker_without_the_files_or_with_other_versions(ask, tmp_path, monkeypatch):
    file = tmp_path / "a"
    file.write_text("text")
    ask(file)
    with refused("folder_not_shared", " 0 bytes", file, " 4."):
        ask(file, "is_file", lambda path: False)
    with refused("folder_not_shared", " 4 bytes", file, " 3."):
        beam_workers._check_files({file: 3})
    with refused("pipeline_failed", "beam-calls", "--data_dir"):
        ask(file, "exists", lambda path: "beam-calls" not in str(path))
    versions = ({"t2t_keras": str(n), "sentencepiece": "", "py3langid": ""} for n in range(9))
    monkeypatch.setattr(beam_workers, "installed_versions", lambda *names: next(versions))
    with refused("other_versions", "t2t_keras: recorded 0", " 1"):
        ask(file)


@pytest.mark.parametrize(
    ("runner", "option", "code", "names"),
    [
        ("Nonsense", "streaming", "bad_value", ["--beam_runner=Nonsense"]),
        ("DirectRunner", "direct_num_workers=x", "bad_flags", ["direct_num_workers", "'x'"]),
        ("DirectRunner", "--runner=FlinkRunner", "bad_flags", ["--beam_runner"]),
        ("DirectRunner", "runner=FlinkRunner", "bad_flags", ["--beam_runner"]),
        (
            "PortableRunner",
            "job_endpoint=localhost:1,job_server_timeout=1",
            "pipeline_failed",
            ["PortableRunner"],
        ),
    ],
)
def test_what_beam_refuses(runner, option, code, names, tmp_path, capfd):
    def check():
        beam_workers.check_beam(runner, option.split(","))
        with beam_workers.beam_workers(runner, option.split(","), tmp_path, []):
            pass

    with refused(code, *names):
        check()
    assert "usage:" not in capfd.readouterr().err
