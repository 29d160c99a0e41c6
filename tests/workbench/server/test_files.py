"""Files at the end of a server and at the beginning of the next."""

import asyncio
import contextlib
import io
import json
import math
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from upper_case import Endless, Gated, Source, UpperCase

from t2t_keras.errors import UserError
from t2t_keras.workbench.server.config import ServerConfig
from t2t_keras.workbench.server.files import TranslatedFiles
from t2t_keras.workbench.server.requests import ApiError
from t2t_keras.workbench.server.service import Metrics, TranslationService
from t2t_keras.workbench.terms.glossary import Glossary


async def keep(files, owner="", content=b"a", name="a.txt", client=""):
    async with files.storing(io.BytesIO(content), name, owner, client) as file:
        return file


async def begin(files, pair=("en", "de"), characters=1, **how):
    """Keeps a file, and begins to translate it."""
    file = await keep(files, **how)
    files.translate(file, pair, characters)
    return file


def using(translator, use, refund=lambda owner, characters: None, **settings):
    """Returns what use(files) does with the files of a server."""

    async def run():
        config = ServerConfig(reload_seconds=0.0, **settings)
        service = TranslationService([Source(translator=translator)], config, Metrics())
        files = TranslatedFiles(service, config, refund)
        files.begin()
        try:
            return await use(files)
        finally:
            await files.close()
            await service.close()

    return asyncio.run(run())


def interrupted(storage):
    """Returns the record of a file of a server that has ended before it began with it."""

    async def send(files):
        await begin(files)
        files.end_jobs()

    using(UpperCase(), send, storage=storage)
    [path] = storage.glob("files/*/record.json")
    return path


@pytest.mark.parametrize("stored", [False, True])
def test_with_storage_the_end_does_not_wait_for_files_that_are_not_begun(tmp_path, stored):
    translator = Gated()

    async def send(files):
        sent = [await begin(files) for _ in range(3)]
        await asyncio.sleep(0)
        closing = asyncio.create_task(files.close())
        await asyncio.sleep(0)
        translator.gate.set()
        await closing
        return [file.status for file in sent]

    actual = using(translator, send, storage=tmp_path if stored else None)
    assert actual == ["done", "done", "queued" if stored else "done"]
    records = [json.loads(path.read_text()) for path in tmp_path.glob("files/*/record.json")]
    assert [record["status"] for record in records].count("queued") == stored


@pytest.mark.parametrize(("clients", "most"), [(1, 2), (8, 8)])
def test_few_files_are_read_and_translated_at_once(monkeypatch, clients, most):
    running, counts, lock = [], [], threading.Lock()
    together = threading.Barrier(most, timeout=10)

    def read(path, *pair):
        with lock:
            running.append(path)
            counts.append(len(running))
        together.wait()
        time.sleep(0.01)
        with lock:
            running.remove(path)
        return SimpleNamespace(units=[])

    async def send(files):
        monkeypatch.setattr("t2t_keras.workbench.server.files.read_document", read)
        monkeypatch.setattr(
            "t2t_keras.workbench.server.files.translate_document", Mock(side_effect=UserError)
        )
        sent = [await keep(files, client=str(n % clients)) for n in range(2 * most)]
        await asyncio.gather(*map(files.read_texts, sent))
        for file in sent:
            files.translate(file, ("en", "de"), 1)
        await asyncio.gather(*map(files.wait_until_finished, sent), return_exceptions=True)

    using(UpperCase(), send)
    assert (max(counts), together.broken) == (most, False)


def test_files_that_are_too_many_or_too_long_are_refused(monkeypatch):
    monkeypatch.setattr("t2t_keras.workbench.server.files._MAX_FILES", 3)
    monkeypatch.setattr("t2t_keras.workbench.server.files._MAX_FILES_PER_OWNER", 2)

    async def send(files):
        anna, _ = await keep(files, owner="anna"), await keep(files, owner="anna")
        with pytest.raises(ApiError) as refused:
            await keep(files, owner="anna")
        assert (refused.value.status, refused.value.retry_after) == (429, 60)
        other = await keep(files, owner="other", content=b"long")
        with pytest.raises(ApiError, match=r"\b4\b.*\b3\b") as refused:
            await files.read_texts(other)
        assert refused.value.status == 413
        files.remove(other)
        await files.read_texts(await keep(files, owner="other", content=b"abc"))
        assert await files.read_texts(anna) == ["a"]
        with pytest.raises(ApiError) as refused:  # The others are still there.
            await keep(files, owner="third")
        assert refused.value.status == 429

    using(UpperCase(), send, max_file_characters=3)


@pytest.mark.parametrize(
    ("name", "stored"),
    [
        ("../a\\b\0.TXT", "b.TXT"),
        (f"{'a' * 300}.txt", f"{'a' * 196}.txt"),
        (f"{'ä' * 196}.txt", f"{'ä' * 196}.txt"),
    ],
)
def test_a_name_has_neither_folders_nor_no_end(name, stored):
    async def send(files):
        file = await begin(files, name=name, content="ŉ".encode())
        await files.wait_until_finished(file)
        return (
            file.name,
            files.translation_path(file).name,
            files.translation_path(file).read_text(),
            file.size,
        )

    assert using(UpperCase(), send) == (stored, "target.txt", "\u02bcN", 3)


def test_what_a_file_has_translated_already_is_not_counted():
    content = b'msgid ""\nmsgstr ""\n\nmsgid "a"\nmsgstr "A"\n\nmsgid "b"\nmsgstr ""\n'

    async def send(files):
        return await files.read_texts(await keep(files, content=content, name="a.po"))

    assert using(UpperCase(), send) == ["b"]


def test_a_result_is_sent_once(tmp_path):
    async def send(files):
        file = await keep(files, content="\u0149".encode())  # Longer in capitals.
        await files.store_terms(file, Glossary.of([("b", "c")]))
        files.translate(file, ("en", "de"), 1)
        await files.wait_until_finished(file)
        assert files.find(file.file_id) is file
        assert (file.size, file.characters) == (len("\u02bcN".encode()), 1)
        assert files.claim(file).read_text() == "\u02bcN"
        for again in (lambda: files.claim(file), lambda: files.find(file.file_id)):
            with pytest.raises(ApiError) as refused:
                again()
            assert refused.value.status == 404
        return file.file_id

    file_id = using(UpperCase(), send, storage=tmp_path)
    assert not list(tmp_path.glob("files/*/source*")), "what was sent is not kept once it is done"

    async def find(files):
        with pytest.raises(ApiError):
            files.find(file_id)

    using(UpperCase(), find, storage=tmp_path)  # Nor by the next server.


@pytest.mark.parametrize(("word", "terms"), [("refuse", ""), ("explode", ""), ("a", "[")])
def test_what_was_sent_is_not_kept_if_it_fails(tmp_path, word, terms):
    refunds = []

    async def send(files):
        file = await keep(files, owner="anna", content=word.encode())
        if terms:  # As a failing disk leaves it.
            (tmp_path / "files" / file.file_id / "terms.json").write_text(terms)
        files.translate(file, ("en", "de"), 7)
        with pytest.raises(ApiError) as refused:
            await files.wait_until_finished(file)
        assert (refused.value.status, str(tmp_path) in str(refused.value)) == (400, False)

    using(UpperCase(), send, lambda *refund: refunds.append(refund), storage=tmp_path)
    assert {path.name for path in tmp_path.glob("files/*/*")} - {"terms.json"} == {"record.json"}
    assert refunds == [("anna", 7)]


def test_a_file_whose_model_is_gone_says_so():
    async def send(files):
        file = await begin(files, ("en", "fr"))
        with pytest.raises(ApiError) as refused:
            await files.wait_until_finished(file)
        assert (refused.value.status, file.status) == (400, "error")

    using(UpperCase(), send)


def test_characters_of_a_file_are_those_of_all_its_batches():
    async def send(files):
        content = b"\n".join(b"a%04d" % i for i in range(1_100))
        file = await begin(files, characters=5_500, content=content)
        await files.wait_until_finished(file)
        assert file.characters == 5_500

    using(UpperCase(), send, max_wait_ms=0.0)


def test_old_translations_are_looked_for_all_the_time(monkeypatch):
    monkeypatch.setattr("t2t_keras.workbench.server.files._SECONDS_BETWEEN_CLEANUPS", 0.01)

    async def send(files):
        for _ in range(2):
            file = await begin(files)
            with contextlib.suppress(ApiError):
                while files.find(file.file_id):
                    await asyncio.sleep(0.01)

    using(UpperCase(), send, keep_files_minutes=0.0)


def test_translations_are_kept_for_so_many_minutes():
    async def send(files):
        done, waiting = await begin(files), await keep(files)
        await files.wait_until_finished(done)
        files.remove_old(done.changed + 120)
        assert files.translation_path(done).exists()
        files.remove_old(max(done.changed, waiting.changed) + 121)
        assert not files.translation_path(done).exists()
        assert files.find(waiting.file_id) is waiting, "it is not finished"

    using(UpperCase(), send, keep_files_minutes=2)


@pytest.mark.parametrize(
    ("before", "attempts", "status"),
    [
        ("translating", 0, "done"),
        ("translating", 2, "done"),
        ("translating", 3, "error"),
        ("queued", 3, "done"),  # The last server was stopped, not killed.
    ],
)
def test_a_file_that_was_begun_too_often_is_given_up(tmp_path, before, attempts, status):
    path = interrupted(tmp_path)
    record = json.loads(path.read_text())
    assert (record["status"], record["attempts"]) == ("queued", 0)
    path.write_text(json.dumps(record | {"attempts": attempts, "status": before}))

    async def look(files):
        file = files.find(record["file_id"])
        await asyncio.gather(*files._tasks.values())
        assert file.is_finished, "it is removed in time"
        return file.status

    translator, refunds = UpperCase(), []
    actual = using(translator, look, lambda owner, count: refunds.append(count), storage=tmp_path)
    assert (actual, refunds) == (status, [1] * (status == "error"))
    counted = attempts + (status == "done") - (before == "queued")
    assert json.loads(path.read_text())["attempts"] == counted
    assert len(translator.calls) == (status == "done")


@pytest.mark.parametrize(
    "changes",
    [
        {"attempts": "many"},
        {"attempts": -1},
        {"changed": "now", "status": "done"},
        {"changed": math.nan, "status": "done"},
        {"size": None, "status": "done"},
        {"pair": ["en"]},
        {"size": -(1 << 40)},
        {"characters": True},
        {"pair": "en"},
        {"pair": ["en", 3]},
        {"status": "lost"},
        {"file_id": "../files"},  # Its folder would be removed.
        {"file_id": "0" * 32},
    ],
)
def test_a_record_that_no_server_has_written_is_left_out(tmp_path, monkeypatch, changes):
    monkeypatch.setattr("t2t_keras.workbench.server.files._MAX_FILES", 1)

    path = interrupted(tmp_path)
    content = json.dumps(json.loads(path.read_text()) | changes)
    path.write_text(content)
    translator = UpperCase()

    async def look(files):
        for file_id in {path.parent.name, str(changes.get("file_id"))}:
            with pytest.raises(ApiError) as refused:
                files.find(file_id)
            assert refused.value.status == 404
        await keep(files)  # It does not count.
        files.remove_old(math.inf)

    using(translator, look, storage=tmp_path)
    assert (translator.calls, path.read_text()) == ([], content)


def test_a_file_that_cannot_be_resumed_on_a_full_disk_is_left_to_the_next_server(
    tmp_path, monkeypatch
):
    file_id = interrupted(tmp_path).parent.name
    monkeypatch.setattr("t2t_keras.workbench.server.files._MAX_FILES", 1)

    def write_json(path, content):
        raise UserError("There is no room.")

    with monkeypatch.context() as full_disk:
        full_disk.setattr("t2t_keras.workbench.server.files.write_json", write_json)
        using(UpperCase(), keep, storage=tmp_path)  # It does not count.

    async def look(files):
        await files.wait_until_finished(files.find(file_id))
        return files.translation_path(files.find(file_id)).read_text()

    assert using(UpperCase(), look, storage=tmp_path) == "A"


@pytest.mark.parametrize("work", ["copy", "terms", "translation"])
def test_nothing_is_written_for_a_file_that_was_removed(tmp_path, monkeypatch, work):
    """A thread makes its folder only after the client has left."""
    begun, go_on, mkdir = threading.Event(), threading.Event(), Path.mkdir
    name = "asyncio" if work == "copy" else "work"

    def slow_mkdir(path, *arguments, **options):
        if threading.current_thread().name.startswith(name):
            begun.set()
            assert go_on.wait(10)
        mkdir(path, *arguments, **options)

    monkeypatch.setattr(Path, "mkdir", slow_mkdir)

    async def receive(files):
        async with files.storing(io.BytesIO(b"a"), "a.txt", "") as file:
            await files.store_terms(file, Glossary.of([("a", "b")]) if work == "terms" else None)
            files.translate(file, ("en", "de"), 1)
            await files.wait_until_finished(file)

    async def leave(files):
        receiving = asyncio.create_task(receive(files))
        assert await asyncio.to_thread(begun.wait, 10)
        receiving.cancel()
        await asyncio.gather(receiving, return_exceptions=True)
        go_on.set()

    refunds = []
    using(UpperCase(), leave, lambda owner, count: refunds.append(count), storage=tmp_path)
    for thread in threading.enumerate():
        if thread.name == "work":
            thread.join(10)
    assert (list(tmp_path.glob("files/*")), refunds) == ([], [])


@pytest.mark.parametrize(
    ("settings", "status"),
    [({"max_job_seconds": 0.05}, "error"), ({"stop_seconds": 0.1}, "queued")],
)
def test_no_file_is_worked_on_without_end(tmp_path, settings, status):
    """What takes too long has failed and costs what it cost; what the end interrupts has not."""
    refunds = []

    async def send(files):
        file = await begin(files, characters=100_000_000)
        while file.status == "queued":
            await asyncio.sleep(0.001)
        if status == "error":
            with pytest.raises(ApiError) as refused:
                await files.wait_until_finished(file)
            assert refused.value.status == 503
        await files.close(time.monotonic() + 0.5)
        return file.status, file.attempts

    settings = {"storage": tmp_path, "max_characters": 100_000_000} | settings
    actual = using(Endless(), send, lambda owner, count: refunds.append(count), **settings)
    assert actual == (status, 1)
    assert refunds == []
    [path] = tmp_path.glob("files/*/record.json")
    assert json.loads(path.read_text())["status"] == status


@pytest.mark.parametrize(
    ("characters", "seconds"), [(0, 1.5), (1_000, 1.5), (1_001, 3.0), (2_000, 3.0), (2_001, 4.5)]
)
def test_each_so_many_characters_have_so_many_seconds(characters, seconds):
    config = ServerConfig(reload_seconds=0.0, max_job_seconds=1.5, max_characters=1_000)
    service = TranslationService([Source()], config, Metrics())
    budget = service.budget("", characters)
    budget.count_searches(1e9)
    assert f" {seconds:g} seconds" in str(budget.end_error)
    asyncio.run(service.close())


def test_the_bytes_of_files_are_bounded():
    async def send(files):
        async def is_refused(owner):
            with contextlib.suppress(ApiError):
                return not await keep(files, owner=owner)
            return True

        for owner in "abcd":
            (await keep(files, owner=owner)).size = (1 << 30) - 1
        assert [await is_refused(owner) for owner in "aabcee"] == [False, True] + [False] * 3 + [
            True
        ]

    using(UpperCase(), send)
