"""LibreTranslate's API, as https://docs.libretranslate.com/api describes it."""

from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse

from t2t_keras.workbench.server.context import Context
from t2t_keras.workbench.server.file_records import TranslatedFile
from t2t_keras.workbench.server.languages import Detected, canonical, language_name
from t2t_keras.workbench.server.messages import ApiError, Parameters, read_parameters, unless_gone
from t2t_keras.workbench.server.service import Options
from t2t_keras.workbench.server.work.budget import Budget

_FORMATS = ("text", "html")


def make_router(context: Context) -> APIRouter:
    """Returns the routes of the API."""
    router = APIRouter()

    @router.post("/translate")
    async def translate(request: Request) -> dict[str, Any]:
        return await _translate(context, request)

    @router.post("/detect")
    async def detect(request: Request) -> list[dict[str, Any]]:
        parameters = await read_parameters(request)
        context.admit(request, parameters)
        texts = _required_texts(parameters)
        context.check_size(texts)
        return [_as_json(each) for each in await context.detect(texts)]

    @router.get("/languages")
    async def languages() -> list[dict[str, Any]]:
        return [
            {"code": code, "name": language_name(code), "targets": context.targets(code)}
            for code in context.languages()
        ]

    @router.get("/frontend/settings")
    async def frontend_settings() -> dict[str, Any]:
        source, target = next(iter(context.service.models))
        names = {"source": source, "target": target}
        formats = context.files.formats()
        return {
            "charLimit": context.config.max_characters,
            "frontendTimeout": 500,
            "apiKeys": context.access.needs_key,
            "keyRequired": context.access.needs_key,
            "suggestions": False,
            "filesTranslation": bool(formats),
            "supportedFilesFormat": formats,
            "language": {
                side: {"code": code, "name": language_name(code)} for side, code in names.items()
            },
        }

    @router.post("/suggest")
    async def suggest() -> None:
        raise ApiError(403, "Suggestions are disabled on this server.")

    _add_files(router, context)
    return router


def _add_files(router: APIRouter, context: Context) -> None:
    files = context.files

    @router.post("/translate_file")
    async def translate_file(request: Request) -> dict[str, str]:
        parameters = await read_parameters(request)
        client = context.admit(request, parameters)
        sent = parameters.file("file")
        if sent is None:
            raise ApiError(400, "Invalid request: missing file parameter")
        if not sent.filename:
            raise ApiError(400, "Invalid request: empty file")
        source, target = required(parameters, "source"), required(parameters, "target")
        sharer = context.sharer(request, client)
        async with files.kept(sent.file, sent.filename, client.identity, sharer) as file:
            file.secret = ""  # Anyone who knows its address may fetch it.
            texts = await files.texts(file)
            if source == "auto":
                source = (await context.detect_source(texts, target, "html")).language
            pair = context.pair(source, target, may_be_same=True)
            if pair[0] == pair[1]:
                files.take_as_translated(file, (source, target))
            else:
                with context.charged(client, texts, Budget()) as characters:
                    files.translate(file, pair, characters)
                await unless_gone(request, files.finished(file), files.budget(file))
        address = request.url_for(
            "download_file", file_id=file.file_id, name=quote(_saved_name(file))
        )
        return {"translatedFileUrl": str(address)}

    @router.get("/download_file/{file_id}/{name}")
    async def download_file(file_id: str, name: str) -> FileResponse:
        file = files.find(file_id)
        if file.secret or file.status != "done":
            raise ApiError(404, "Not found")
        return FileResponse(files.path(file), filename=_saved_name(file))


def _saved_name(file: TranslatedFile) -> str:
    """Returns the name of a translation, as a.de.po."""
    name = PurePosixPath(file.translated_name)
    return name.with_suffix(f".{file.pair[1]}{name.suffix}").name


async def _translate(context: Context, request: Request) -> dict[str, Any]:
    parameters = await read_parameters(request)
    client = context.admit(request, parameters)
    texts, several = _required_texts(parameters), isinstance(parameters.any("q"), list)
    source, target = required(parameters, "source"), required(parameters, "target")
    kind = parameters.text("format") or "text"
    if kind not in _FORMATS:
        raise ApiError(400, f"{kind} format is not supported")
    alternatives = _alternatives(context, parameters)
    context.check_size(texts)
    detected = None
    if source == "auto":
        detected = await context.detect_source(texts, target, kind)
        source = detected.language
    pair = context.pair(source, target, may_be_same=True)
    found = await context.translate(
        request, client, [pair] * len(texts), texts, Options(format=kind)
    )
    answer: dict[str, Any] = {"translatedText": [each.text for each in found]}
    if detected:
        answer["detectedLanguage"] = [_as_json(detected)] * len(texts)
    if alternatives:
        answer["alternatives"] = [each.alternatives[:alternatives] for each in found]
    return answer if several else {name: values[0] for name, values in answer.items()}


def required(parameters: Parameters, name: str) -> str:
    """Returns a parameter; raises `ApiError` if it is missing."""
    if not (found := parameters.text(name)):
        raise ApiError(400, f"Invalid request: missing {name} parameter")
    return found if found == "auto" else canonical(found)


def _required_texts(parameters: Parameters) -> list[str]:
    if not parameters.any("q"):
        raise ApiError(400, "Invalid request: missing q parameter")
    return parameters.texts("q")


def _alternatives(context: Context, parameters: Parameters) -> int:
    text, most = parameters.text("alternatives", "0"), context.service.most_alternatives
    try:
        number = max(int(text), 0)
    except ValueError as error:
        raise ApiError(400, "Invalid request: alternatives parameter is not a number") from error
    if number > most:
        raise ApiError(400, f"Invalid request: alternatives parameter must be <= {most}")
    return number


def _as_json(detected: Detected) -> dict[str, Any]:
    return {
        "confidence": round(100 * detected.confidence, 1),
        "language": detected.language,
    }
