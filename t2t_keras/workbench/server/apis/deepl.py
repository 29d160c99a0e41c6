"""DeepL's API for text and documents, as https://developers.deepl.com/docs describes it."""

import contextlib
import time
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

from starlette.background import BackgroundTask
from starlette.responses import FileResponse

from t2t_keras.workbench.server.apis.deepl_glossaries import requested_glossary
from t2t_keras.workbench.server.endpoints import Call, Endpoint
from t2t_keras.workbench.server.files import TranslatedFile
from t2t_keras.workbench.server.languages import canonical, language_name, nearest_code
from t2t_keras.workbench.server.messages import ApiError, Parameters
from t2t_keras.workbench.server.service import Options, Pair, Splitting
from t2t_keras.workbench.server.work.shares import Budget
from t2t_keras.workbench.terms.glossary import Glossary

# What its clients do not take as a target, and take instead.
_TARGET_VARIANTS = {"en": ("en-GB", "en-US"), "pt": ("pt-PT", "pt-BR")}

_SPLITTING = {
    "0": Splitting(lines=False, sentences=False),
    "1": Splitting(),
    "nonewlines": Splitting(lines=False),
}
_FORMALITIES = ("default", "less", "more", "prefer_less", "prefer_more")
_MODEL_TYPES = {
    "quality_optimized": "quality_optimized",
    "prefer_quality_optimized": "quality_optimized",
    "latency_optimized": "latency_optimized",
}
# What would change a translation, and cannot here.
_REFUSED = ("style_id", "translation_memory_id", "custom_instructions")
_UNLIMITED = 1_000_000_000_000  # What DeepL says of an account without a limit.
_SAME = "Source and target language are equal."


async def languages(call: Call) -> list[dict[str, Any]]:
    """Lists the languages of the models, as sources or targets."""
    models = call.context.service.models
    if call.parameters.choice("type", ("source", "target"), "source") == "source":
        # Without variants: no client sends them.
        codes = {source.partition("-")[0] for source, _ in models}
        return [{"language": code.upper(), "name": language_name(code)} for code in sorted(codes)]
    codes = {code for _, target in models for code in _TARGET_VARIANTS.get(target, (target,))}
    return [
        {"language": code.upper(), "name": language_name(code), "supports_formality": False}
        for code in sorted(codes)
    ]


async def usage(call: Call) -> dict[str, int]:
    """Tells how much of its quota the client has used."""
    return {
        "character_count": call.context.access.characters(call.client),
        "character_limit": call.client.key.characters_per_month or _UNLIMITED,
    }


async def empty_list(call: Call) -> dict[str, Any]:
    """Lists none of what the path names."""
    return {call.request.url.path.rpartition("/")[2]: []}


async def missing(call: Call) -> None:
    """Refuses what this server does not support."""
    raise ApiError(
        404,
        "Endpoint not supported: this server translates text and documents, and has languages, "
        "usage and glossaries.",
    )


async def translate(call: Call) -> dict[str, Any]:
    """Translates texts, each from its own language where none is named."""
    parameters = call.parameters
    if not (texts := parameters.texts("text")):
        raise ApiError(400, "Parameter 'text' not specified.")
    call.context.check_size(texts)
    check_options(parameters)
    kind = parameters.choice("tag_handling", ("html", "xml"), "text")
    splitting = parameters.choice("split_sentences", tuple(_SPLITTING), "1")
    pairs = await _read_pairs(call, texts, kind)
    # With one, the source is not detected: all pairs are the same.
    glossary = await requested_glossary(call, pairs[0])
    options = _options(parameters, kind, glossary)
    translations = await call.translate(pairs, texts, options, _SPLITTING[splitting])
    model = parameters.text("model_type")
    shared = {"model_type_used": _MODEL_TYPES[model]} if model else {}
    billed = parameters.switch("show_billed_characters")
    return {
        "translations": [
            {
                "detected_source_language": source.partition("-")[0].upper(),
                "text": translation.text,
            }
            | ({"billed_characters": len(text)} if billed else {})
            | shared
            for (source, _), text, translation in zip(pairs, texts, translations, strict=True)
        ]
    }


async def _read_pairs(call: Call, texts: Sequence[str], kind: str) -> list[Pair]:
    """Returns the pair of each text; if its language has no model, the pair of all together."""
    pairs = [await read_pair(call, texts, kind)] * len(texts)
    if not call.parameters.text("source_lang") and len(texts) > 1:
        for number, text in enumerate(texts):
            with contextlib.suppress(ApiError):
                pairs[number] = await read_pair(call, [text], kind)
    return pairs


def _options(parameters: Parameters, kind: str, glossary: Glossary | None) -> Options:
    """Returns how a text is translated: of markup, which elements stay and which divide it."""
    if kind == "text":
        return Options(kind, glossary=glossary)
    ignored, splitting, others = (
        {tag.strip() for text in parameters.texts(name) for tag in text.split(",") if tag.strip()}
        for name in ("ignore_tags", "splitting_tags", "non_splitting_tags")
    )
    outline = kind == "xml" and parameters.switch("outline_detection", True)
    return Options(
        kind,
        glossary=glossary,
        keep=tuple(sorted(ignored)),
        blocks=tuple(sorted(splitting - others)),
        outline=outline,
        inline=tuple(sorted(others)) if outline else (),
    )


def check_options(parameters: Parameters) -> None:
    """Raises `ApiError` for values that DeepL has not, and for what no model here can do."""
    for name in ("preserve_formatting", "outline_detection", "show_billed_characters"):
        parameters.switch(name)
    parameters.choice("tag_handling_version", ("v1", "v2"))
    parameters.choice("model_type", tuple(_MODEL_TYPES))
    if parameters.choice("formality", _FORMALITIES, "default") in ("less", "more"):
        raise ApiError(400, "'formality' is not supported for given 'target_lang'.")
    for name in _REFUSED:
        if parameters.any(name):
            raise ApiError(400, f"'{name}' is not supported by this server.")


async def read_pair(call: Call, texts: Sequence[str], kind: str) -> Pair:
    """Returns the language pair of a request for texts of a format; a missing source is detected.

    For a text already in the target language it is that language twice, see `Context.pair`.

    Raises:
      ApiError: there is no model for them.
    """
    context, parameters = call.context, call.parameters
    target, source = parameters.text("target_lang"), parameters.text("source_lang")
    if not target:
        raise ApiError(400, "Value for 'target_lang' not supported.")
    if not source:
        source = (await context.detect_source(texts, target, kind)).language
    try:
        return context.pair(canonical(source), canonical(target), may_be_same=True)
    except ApiError as error:
        known = {code for _, code in context.service.models}
        wrong = "source_lang" if nearest_code(canonical(target), known) else "target_lang"
        raise ApiError(400, f"Value for '{wrong}' not supported.", detail=error.message) from error


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
    Endpoint("/v2/translate", translate),
    Endpoint("/v2/languages", languages, ("GET", "POST")),
    Endpoint("/v2/usage", usage, ("GET", "POST")),
    Endpoint("/v3/style_rules", empty_list, ("GET",)),
    Endpoint("/v3/translation_memories", empty_list, ("GET",)),
    Endpoint("/v2/document", upload),
    Endpoint("/v2/document/{document_id}", status, ("GET", "POST")),
    Endpoint("/v2/document/{document_id}/result", result, ("GET", "POST")),
)
# They must come after those of glossaries.
LAST_ROUTES = tuple(
    Endpoint(path, missing, ("GET", "POST", "PUT", "PATCH", "DELETE"), is_open=True)
    for path in ("/v2/{rest:path}", "/v3/{rest:path}")
)
