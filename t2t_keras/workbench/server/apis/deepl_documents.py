"""DeepL's API for documents: upload, status, result."""

import time
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

from starlette.background import BackgroundTask
from starlette.responses import FileResponse

from t2t_keras.workbench.server.apis.deepl import check_options, read_pair
from t2t_keras.workbench.server.apis.deepl_glossaries import requested_glossary
from t2t_keras.workbench.server.endpoints import Call, Endpoint
from t2t_keras.workbench.server.file_records import TranslatedFile
from t2t_keras.workbench.server.messages import ApiError, Parameters
from t2t_keras.workbench.server.work.budget import Budget

_SAME = "Source and target language are equal."


async def upload(call: Call) -> dict[str, str]:
    """Takes a document, and begins to translate it."""
    parameters, files = call.parameters, call.context.files
    sent = parameters.file("file")
    name = sent and (parameters.text("filename") or sent.filename)
    if not (sent and name):
        raise ApiError(400, "Invalid file data.")
    _check_format(parameters, name, files.formats())
    check_options(parameters)
    async with files.kept(sent.file, name, call.client.identity, call.sharer) as file:
        texts = await files.texts(file)
        # Detection as HTML suits texts without tags too.
        pair = await read_pair(call, texts, "html")
        if pair[0] == pair[1]:
            if parameters.text("source_lang"):
                raise ApiError(400, _SAME)
            # As the language was detected after the upload, the status reports the error.
            files.fail(file, _SAME)
        else:
            await files.keep_terms(file, await requested_glossary(call, pair))
            with call.charged(texts, Budget()) as characters:
                files.translate(file, pair, characters)
    return {"document_id": file.file_id, "document_key": file.secret}


async def status(call: Call) -> dict[str, Any]:
    """Tells how far the translation of a document is."""
    file = _find(call)
    answer: dict[str, Any] = {"document_id": file.file_id, "status": file.status}
    if file.status == "translating":
        # As long again as it has taken so far: a client looks ever less often.
        answer["seconds_remaining"] = 1 + int(max(time.time() - file.changed, 0))
    if file.status == "done":
        answer |= {"seconds_remaining": 0, "billed_characters": file.characters}
    if file.status == "error":
        answer |= {"error_message": file.error, "message": file.error}
    return answer


async def result(call: Call) -> FileResponse:
    """Returns a translated document, once."""
    file, files = _find(call), call.context.files
    if file.status != "done":
        raise ApiError(503, "Document translation is not done")
    # As DeepL's, it can be fetched once; what is fetched only in part is removed later.
    removal = BackgroundTask(files.remove, file)
    return FileResponse(files.claim(file), filename=file.translated_name, background=removal)


def _check_format(parameters: Parameters, name: str, known: Sequence[str]) -> None:
    from t2t_keras.workbench.documents import translated_name

    ending = PurePosixPath(name).suffix.lower()
    if ending not in known:
        raise ApiError(400, f"Invalid file: the file extension '{ending}' is not supported.")
    wanted = parameters.text("output_format").lower()
    if wanted and translated_name(name).suffix.lower() != f".{wanted}":
        raise ApiError(400, "output_format not supported.")


def _find(call: Call) -> TranslatedFile:
    file = call.context.files.find(call.request.path_params["document_id"])
    if (file.secret, file.owner) != (call.parameters.text("document_key"), call.client.identity):
        raise ApiError(404, "Not found")
    return file


ROUTES = (
    Endpoint("/v2/document", upload),
    Endpoint("/v2/document/{document_id}", status, ("GET", "POST")),
    Endpoint("/v2/document/{document_id}/result", result, ("GET", "POST")),
)
