"""LibreTranslate's API; see https://docs.libretranslate.com/api."""

from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

from starlette.responses import FileResponse

import t2t_keras
from t2t_keras.workbench.server.endpoints import Call, Context, Endpoint
from t2t_keras.workbench.server.files import TranslatedFile
from t2t_keras.workbench.server.languages import DetectedLanguage, canonical_code, language_name
from t2t_keras.workbench.server.requests import ApiError, Budget, Parameters, run_while_connected
from t2t_keras.workbench.server.service import Options

_FORMATS = ("text", "html")
_LANGUAGE = "Language code, as listed by /languages"
_KEY = ("api_key", "string", "Key, if the server requires one", False)
_TEXT = ("q", "string", "Text, or in JSON a list of texts", True)
_SOURCE = ("source", "string", f"{_LANGUAGE}, or auto", True)
_TARGET = ("target", "string", _LANGUAGE, True)
_FORMAT = ("format", "string", "text or html", False)
_ALTERNATIVES = ("alternatives", "integer", "Number of further translations", False)
_FILE = ("file", "file", "File to translate", True)

# Summary, parameters (name, type, description, required) and error statuses by route and method.
_OPERATIONS: dict[tuple[str, str], tuple[str, tuple, tuple[int, ...]]] = {
    ("/translate", "post"): (
        "Translate text",
        (_TEXT, _SOURCE, _TARGET, _FORMAT, _ALTERNATIVES, _KEY),
        (400, 403, 413, 429, 500, 503),
    ),
    ("/detect", "post"): ("Detect the language of text", (_TEXT, _KEY), (400, 403, 413, 429)),
    ("/translate_file", "post"): (
        "Translate a file",
        (_FILE, _SOURCE, _TARGET, _KEY),
        (400, 403, 413, 429, 500, 503),
    ),
    ("/suggest", "post"): ("Suggestions, which this server refuses", (), (403,)),
    ("/languages", "get"): ("List the languages", (), ()),
    ("/frontend/settings", "get"): ("Settings for a page", (), ()),
    ("/health", "get"): ("Check that the server answers", (), ()),
}


async def translate(call: Call) -> dict[str, Any]:
    """Translates a text, or a list of texts."""
    context, parameters = call.context, call.parameters
    texts, is_list = _required_texts(parameters), isinstance(parameters.raw_value("q"), list)
    source, target = required_code(parameters, "source"), required_code(parameters, "target")
    text_format = parameters.text("format") or "text"
    if text_format not in _FORMATS:
        raise ApiError(400, f"{text_format} format is not supported")
    num_alternatives = _read_num_alternatives(context, parameters)
    context.check_size(texts)
    detected = None
    if source == "auto":
        detected = await context.detect_source(texts, target, text_format)
        source = detected.language
    pair = context.pair(source, target, may_be_same=True)
    translations = await call.translate([pair] * len(texts), texts, Options(format=text_format))
    answer: dict[str, Any] = {"translatedText": [translation.text for translation in translations]}
    if detected:
        answer["detectedLanguage"] = [_as_json(detected)] * len(texts)
    if num_alternatives:
        answer["alternatives"] = [
            translation.alternatives[:num_alternatives] for translation in translations
        ]
    return answer if is_list else {name: values[0] for name, values in answer.items()}


async def detect(call: Call) -> list[dict[str, Any]]:
    """Returns the possible languages of texts."""
    texts = _required_texts(call.parameters)
    call.context.check_size(texts)
    return [_as_json(language) for language in await call.context.detect(texts)]


async def list_languages(call: Call) -> list[dict[str, Any]]:
    """Lists the languages, each with its targets."""
    return [
        {"code": code, "name": language_name(code), "targets": call.context.targets(code)}
        for code in call.context.languages()
    ]


async def frontend_settings(call: Call) -> dict[str, Any]:
    """Returns the settings that a page needs."""
    context = call.context
    source, target = next(iter(context.service.models))
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
            side: {"code": code, "name": language_name(code)}
            for side, code in (("source", source), ("target", target))
        },
    }


async def suggest(call: Call) -> None:
    """Refuses suggestions."""
    raise ApiError(403, "Suggestions are disabled on this server.")


async def translate_file(call: Call) -> dict[str, str]:
    """Translates a file, and returns the URL of its translation."""
    parameters, context, files = call.parameters, call.context, call.context.files
    upload = parameters.file("file")
    if upload is None:
        raise ApiError(400, "Invalid request: missing file parameter")
    if not upload.filename:
        raise ApiError(400, "Invalid request: empty file")
    source, target = required_code(parameters, "source"), required_code(parameters, "target")
    async with files.storing(
        upload.file, upload.filename, call.client.identity, call.share_owner
    ) as file:
        file.secret = ""  # Anyone who knows the URL may fetch it.
        texts = await files.read_texts(file)
        if source == "auto":
            source = (await context.detect_source(texts, target, "html")).language
        pair = context.pair(source, target, may_be_same=True)
        if pair[0] == pair[1]:
            files.use_as_translation(file, (source, target))
        else:
            with call.charged(texts, Budget()) as characters:
                files.translate(file, pair, characters)
            budget = files.budget(file)
            await run_while_connected(call.request, files.wait_until_finished(file), budget)
    name = quote(_download_name(file))
    url = call.request.url_for("download_file", file_id=file.file_id, name=name)
    return {"translatedFileUrl": str(url)}


async def download_file(call: Call) -> FileResponse:
    """Returns a translated file."""
    files = call.context.files
    file = files.find(call.request.path_params["file_id"])
    if file.secret or file.status != "done":
        raise ApiError(404, "Not found")
    return FileResponse(files.translation_path(file), filename=_download_name(file))


def _download_name(file: TranslatedFile) -> str:
    """Returns the name of a translation, such as a.de.po."""
    name = PurePosixPath(file.translated_name)
    return name.with_suffix(f".{file.pair[1]}{name.suffix}").name


def required_code(parameters: Parameters, name: str) -> str:
    """Returns the language code in a parameter, or "auto"; raises `ApiError` if it is missing."""
    if not (text := parameters.text(name)):
        raise ApiError(400, f"Invalid request: missing {name} parameter")
    return text if text == "auto" else canonical_code(text)


def _required_texts(parameters: Parameters) -> list[str]:
    if not parameters.raw_value("q"):
        raise ApiError(400, "Invalid request: missing q parameter")
    return parameters.texts("q")


def _read_num_alternatives(context: Context, parameters: Parameters) -> int:
    text, limit = parameters.text("alternatives", "0"), context.service.max_alternatives
    try:
        number = max(int(text), 0)
    except ValueError as error:
        raise ApiError(400, "Invalid request: alternatives parameter is not a number") from error
    if number > limit:
        raise ApiError(400, f"Invalid request: alternatives parameter must be <= {limit}")
    return number


def _as_json(detected: DetectedLanguage) -> dict[str, Any]:
    return {
        "confidence": round(100 * detected.confidence, 1),
        "language": detected.language,
    }


async def spec(call: Call) -> dict[str, Any]:
    """Returns the specification of the API."""
    return specification()


def specification() -> dict[str, Any]:
    """Returns the specification of the API in Swagger's format."""
    paths: dict[str, dict[str, Any]] = {}
    for (path, method), (summary, parameters, error_statuses) in _OPERATIONS.items():
        operation: dict[str, Any] = {
            "summary": summary,
            "tags": ["translate"],
            "produces": ["application/json"],
            "parameters": [
                {"name": name, "in": "formData", "type": kind, "description": description}
                | {"required": is_required}
                for name, kind, description, is_required in parameters
            ],
            "responses": {"200": {"description": "Answer"}}
            | {str(status): {"description": "Error"} for status in error_statuses},
        }
        if parameters:
            has_file = any(kind == "file" for _, kind, *_ in parameters)
            urlencoded = [] if has_file else ["application/x-www-form-urlencoded"]
            operation["consumes"] = [*urlencoded, "multipart/form-data"]
        paths.setdefault(path, {})[method] = operation
    return {
        "swagger": "2.0",
        "info": {"title": "LibreTranslate", "version": t2t_keras.__version__},
        "basePath": "/",
        "paths": paths,
    }


ROUTES = (
    Endpoint("/translate", translate),
    Endpoint("/detect", detect),
    Endpoint("/languages", list_languages, ("GET",), is_open=True),
    Endpoint("/frontend/settings", frontend_settings, ("GET",), is_open=True),
    Endpoint("/suggest", suggest, is_open=True),
    Endpoint("/translate_file", translate_file),
    Endpoint("/download_file/{file_id}/{name}", download_file, ("GET",), is_open=True),
    Endpoint("/spec", spec, ("GET",), is_open=True),
)
