"""Files at the end of a server and at the beginning of the next."""

import asyncio
import io
import json

import pytest
from upper_case import Gated, Source

from t2t_keras.server.config import ServerConfig
from t2t_keras.server.files import TranslatedFiles
from t2t_keras.server.metrics import Metrics
from t2t_keras.server.service import TranslationService


async def keep(files, name="a.txt", owner=""):
    async with files.kept(io.BytesIO(b"a"), name, owner) as file:
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
