"""Files at the end of a server and at the beginning of the next."""

import asyncio
import io
import json
import threading
import time
from types import SimpleNamespace

import pytest
from upper_case import Gated, Source, UpperCase

from t2t_keras.server.config import ServerConfig
from t2t_keras.server.files import TranslatedFiles
from t2t_keras.server.messages import ApiError
from t2t_keras.server.metrics import Metrics
from t2t_keras.server.service import TranslationService


async def keep(files, owner="", content=b"a"):
    async with files.kept(io.BytesIO(content), "a.txt", owner) as file:
        return file


def using(translator, use, **settings):
    """Returns what use(files) does with the files of a server."""

    async def run():
        config = ServerConfig(reload_seconds=0.0, **settings)
        service = TranslationService([Source(translator=translator)], config, Metrics())
        files = TranslatedFiles(service, config, lambda owner, characters: None)
        files.begin()
        try:
            return await use(files)
        finally:
            await files.close()
            await service.close()

    return asyncio.run(run())


@pytest.mark.parametrize("stored", [False, True])
def test_with_storage_the_end_does_not_wait_for_files_that_are_not_begun(tmp_path, stored):
    translator = Gated()

    async def send(files):
        sent = [await keep(files) for _ in range(3)]
        for file in sent:
            files.translate(file, ("en", "de"), 1)
        await asyncio.sleep(0)
        closing = asyncio.create_task(files.close())
        await asyncio.sleep(0)
        translator.gate.set()
        await closing
        return [file.status for file in sent]

    found = using(translator, send, storage=tmp_path if stored else None)
    assert found == ["done", "done", "queued" if stored else "done"]
    records = [json.loads(path.read_text()) for path in tmp_path.glob("files/*/record.json")]
    assert [each["status"] for each in records].count("queued") == stored


def test_few_files_are_read_at_once(monkeypatch):
    running, most, lock = 0, 0, threading.Lock()

    def read(path):
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.01)
        with lock:
            running -= 1
        return SimpleNamespace(units=[])

    async def send(files):
        monkeypatch.setattr("t2t_keras.documents.read_document", read)
        sent = [await keep(files) for _ in range(6)]
        await asyncio.gather(*map(files.texts, sent))

    using(UpperCase(), send)
    assert most == 2


def test_files_that_are_too_many_or_too_long_are_refused(monkeypatch):
    monkeypatch.setattr("t2t_keras.server.files._MOST_FILES", 3)
    monkeypatch.setattr("t2t_keras.server.files._MOST_OF_OWNER", 2)

    async def send(files):
        anna, _ = await keep(files, owner="anna"), await keep(files, owner="anna")
        with pytest.raises(ApiError, match="too many files"):
            await keep(files, owner="anna")
        with pytest.raises(ApiError, match=r"file \(4 characters\) exceeds text limit \(3\)"):
            await files.texts(await keep(files, owner="other", content=b"long"))
        assert await files.texts(anna) == ["a"]
        with pytest.raises(ApiError, match="too many files"):  # The others are still there.
            await keep(files, owner="third")

    using(UpperCase(), send, max_file_characters=3)
