"""DeepL's API for documents: upload, status, result."""

import time
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse
from starlette.background import BackgroundTask

from t2t_keras.workbench.server.apis.deepl import check_options, read_pair
from t2t_keras.workbench.server.apis.deepl_glossaries import requested_glossary
from t2t_keras.workbench.server.context import Context
from t2t_keras.workbench.server.file_records import TranslatedFile
from t2t_keras.workbench.server.messages import ApiError, Parameters, read_parameters
from t2t_keras.workbench.server.work.budget import Budget

_SAME = "Source and target language are equal."


def make_router(context: Context) -> APIRouter:
    """Returns the routes of the API."""
    router, files = APIRouter(), context.files

    @router.post("/v2/document")
    async def upload(request: Request) -> dict[str, str]:
        parameters = await read_parameters(request)
        client = context.admit(request, parameters)
        sent = parameters.file("file")
        name = sent and (parameters.text("filename") or sent.filename)
        if not (sent and name):
            raise ApiError(400, "Invalid file data.")
        _check_format(parameters, name, files.formats())
        check_options(parameters)
        sharer = context.sharer(request, client)
        async with files.kept(sent.file, name, client.identity, sharer) as file:
            texts = await files.texts(file)
            # Detection as HTML suits texts without tags too.
            pair = await read_pair(context, parameters, texts, "html")
            if pair[0] == pair[1]:
                if parameters.text("source_lang"):
                    raise ApiError(400, _SAME)
                # As the language was detected after the upload, the status reports the error.
                files.fail(file, _SAME)
                return {"document_id": file.file_id, "document_key": file.secret}
            glossary = await requested_glossary(context, client, parameters, pair)
            await files.keep_terms(file, glossary)
            with context.charged(client, texts, Budget()) as characters:
                files.translate(file, pair, characters)
        return {"document_id": file.file_id, "document_key": file.secret}

    @router.api_route("/v2/document/{document_id}", methods=["GET", "POST"])
    async def status(request: Request, document_id: str) -> dict[str, Any]:
        file = await _find(context, request, document_id)
        found: dict[str, Any] = {"document_id": file.file_id, "status": file.status}
        if file.status == "translating":
            # As long again as it has taken so far: a client looks ever less often.
            found["seconds_remaining"] = 1 + int(max(time.time() - file.changed, 0))
        if file.status == "done":
            found |= {"seconds_remaining": 0, "billed_characters": file.characters}
        if file.status == "error":
            found |= {"error_message": file.error, "message": file.error}
        return found

    @router.api_route("/v2/document/{document_id}/result", methods=["GET", "POST"])
    async def result(request: Request, document_id: str) -> FileResponse:
        file = await _find(context, request, document_id)
        if file.status != "done":
            raise ApiError(503, "Document translation is not done")
        # As DeepL's, it can be fetched once; what is fetched only in part is removed later.
        removal = BackgroundTask(files.remove, file)
        return FileResponse(files.claim(file), filename=file.translated_name, background=removal)

    return router


def _check_format(parameters: Parameters, name: str, known: Sequence[str]) -> None:
    from t2t_keras.workbench.documents import translated_name

    ending = PurePosixPath(name).suffix.lower()
    if ending not in known:
        raise ApiError(400, f"Invalid file: the file extension '{ending}' is not supported.")
    wanted = parameters.text("output_format").lower()
    if wanted and translated_name(name).suffix.lower() != f".{wanted}":
        raise ApiError(400, "output_format not supported.")


async def _find(context: Context, request: Request, document_id: str) -> TranslatedFile:
    parameters = await read_parameters(request)
    client = context.admit(request, parameters)
    file = context.files.find(document_id)
    if (file.secret, file.owner) != (parameters.text("document_key"), client.identity):
        raise ApiError(404, "Not found")
    return file
