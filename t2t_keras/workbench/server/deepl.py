"""DeepL's API for text, documents and glossaries; see https://developers.deepl.com/docs."""

import contextlib
import time
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

from starlette.background import BackgroundTask
from starlette.responses import FileResponse, Response

from t2t_keras.text.formats import main_language
from t2t_keras.workbench.documents import translated_name
from t2t_keras.workbench.server.endpoints import Call, Endpoint
from t2t_keras.workbench.server.files import TranslatedFile
from t2t_keras.workbench.server.glossaries import (
    FORMATS,
    StoredGlossary,
    Terms,
    as_tsv,
    find_dictionary,
    glossary_pair,
    read_entries,
)
from t2t_keras.workbench.server.languages import canonical_code, language_name, nearest_code
from t2t_keras.workbench.server.requests import ApiError, Budget, Parameters, json_response
from t2t_keras.workbench.server.service import Options, Pair, Splitting
from t2t_keras.workbench.terms.glossary import Glossary

_TSV = "text/tab-separated-values"
_MAX_IDS, _MAX_DICTIONARIES = 5, 1_000

# Targets that DeepL's clients reject, and variants that they accept instead.
_TARGET_VARIANTS = {"en": ("en-GB", "en-US"), "pt": ("pt-PT", "pt-BR")}

_SPLITTINGS = {
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
# Unsupported options that would change a translation.
_REFUSED_OPTIONS = ("style_id", "translation_memory_id", "custom_instructions")
_UNLIMITED_CHARACTERS = 1_000_000_000_000  # DeepL's value for an unlimited account.
_SAME_LANGUAGE = "Source and target language are equal."


async def list_languages(call: Call) -> list[dict[str, Any]]:
    """Lists source or target languages."""
    models = call.context.service.models
    if call.parameters.choice("type", ("source", "target"), "source") == "source":
        # List no variants, as clients do not send them.
        codes = {main_language(source) for source, _ in models}
        return [{"language": code.upper(), "name": language_name(code)} for code in sorted(codes)]
    codes = {code for _, target in models for code in _TARGET_VARIANTS.get(target, (target,))}
    return [
        {"language": code.upper(), "name": language_name(code), "supports_formality": False}
        for code in sorted(codes)
    ]


async def report_usage(call: Call) -> dict[str, int]:
    """Returns how many characters of the quota the client has used."""
    return {
        "character_count": call.context.access.characters_this_month(call.client),
        "character_limit": call.client.key.characters_per_month or _UNLIMITED_CHARACTERS,
    }


async def return_empty_list(call: Call) -> dict[str, Any]:
    """Returns an empty list, whose key is the last part of the path."""
    return {call.request.url.path.rpartition("/")[2]: []}


async def refuse_endpoint(call: Call) -> None:
    """Refuses an unsupported endpoint."""
    raise ApiError(
        404,
        "Endpoint not supported: this server supports text, documents, languages, usage and "
        "glossaries.",
    )


async def translate(call: Call) -> dict[str, Any]:
    """Translates texts; without a source language, detects the language of each text."""
    parameters = call.parameters
    if not (texts := parameters.texts("text")):
        raise ApiError(400, "Parameter 'text' not specified.")
    call.context.check_size(texts)
    check_options(parameters)
    text_format = parameters.choice("tag_handling", ("html", "xml"), "text")
    splitting = _SPLITTINGS[parameters.choice("split_sentences", tuple(_SPLITTINGS), "1")]
    pairs = await _read_pairs(call, texts, text_format)
    # With a glossary, the request must name the source language, so all pairs are equal.
    glossary = await requested_glossary(call, pairs[0])
    options = _read_options(parameters, text_format, glossary)
    translations = await call.translate(pairs, texts, options, splitting)
    model_type = parameters.text("model_type")
    type_used = {"model_type_used": _MODEL_TYPES[model_type]} if model_type else {}
    shows_billed = parameters.switch("show_billed_characters")
    return {
        "translations": [
            {
                "detected_source_language": main_language(source).upper(),
                "text": translation.text,
            }
            | ({"billed_characters": len(text)} if shows_billed else {})
            | type_used
            for (source, _), text, translation in zip(pairs, texts, translations, strict=True)
        ]
    }


async def _read_pairs(call: Call, texts: Sequence[str], text_format: str) -> list[Pair]:
    """Returns the pair of each text; if that has no model, the pair of all texts together."""
    pairs = [await read_pair(call, texts, text_format)] * len(texts)
    if not call.parameters.text("source_lang") and len(texts) > 1:
        for number, text in enumerate(texts):
            with contextlib.suppress(ApiError):
                pairs[number] = await read_pair(call, [text], text_format)
    return pairs


def _read_options(parameters: Parameters, text_format: str, glossary: Glossary | None) -> Options:
    """Returns the options of a translation."""
    if text_format == "text":
        return Options(text_format, glossary=glossary)
    ignored_tags, splitting_tags, non_splitting_tags = (
        {tag.strip() for text in parameters.texts(name) for tag in text.split(",") if tag.strip()}
        for name in ("ignore_tags", "splitting_tags", "non_splitting_tags")
    )
    outline = text_format == "xml" and parameters.switch("outline_detection", True)
    return Options(
        text_format,
        glossary=glossary,
        keep=tuple(sorted(ignored_tags)),
        blocks=tuple(sorted(splitting_tags - non_splitting_tags)),
        outline=outline,
        inline=tuple(sorted(non_splitting_tags)) if outline else (),
    )


def check_options(parameters: Parameters) -> None:
    """Raises `ApiError` for invalid values and unsupported options."""
    for name in ("preserve_formatting", "outline_detection", "show_billed_characters"):
        parameters.switch(name)
    parameters.choice("tag_handling_version", ("v1", "v2"))
    parameters.choice("model_type", tuple(_MODEL_TYPES))
    if parameters.choice("formality", _FORMALITIES, "default") in ("less", "more"):
        raise ApiError(400, "'formality' is not supported for given 'target_lang'.")
    for name in _REFUSED_OPTIONS:
        if parameters.raw_value(name):
            raise ApiError(400, f"'{name}' is not supported by this server.")


async def read_pair(call: Call, texts: Sequence[str], text_format: str) -> Pair:
    """Returns the language pair of a request; detects a missing source from the texts.

    For texts that are already in the target language, returns that language twice.

    Raises:
      ApiError: there is no model for the pair.
    """
    context, parameters = call.context, call.parameters
    target, source = parameters.text("target_lang"), parameters.text("source_lang")
    if not target:
        raise ApiError(400, "Value for 'target_lang' not supported.")
    if not source:
        source = (await context.detect_source(texts, target, text_format)).language
    try:
        return context.pair(canonical_code(source), canonical_code(target), may_be_same=True)
    except ApiError as error:
        targets = {code for _, code in context.service.models}
        name = "source_lang" if nearest_code(canonical_code(target), targets) else "target_lang"
        raise ApiError(400, f"Value for '{name}' not supported.", detail=error.message) from error


async def upload_document(call: Call) -> dict[str, str]:
    """Stores a document, and starts its translation."""
    parameters, files = call.parameters, call.context.files
    upload = parameters.file("file")
    name = upload and (parameters.text("filename") or upload.filename)
    if not (upload and name):
        raise ApiError(400, "Invalid file data.")
    _check_format(parameters, name, files.formats())
    check_options(parameters)
    async with files.storing(upload.file, name, call.client.identity, call.share_owner) as file:
        texts = await files.read_texts(file)
        # Detection as HTML also works for texts without tags.
        pair = await read_pair(call, texts, "html")
        if pair[0] == pair[1]:
            if parameters.text("source_lang"):
                raise ApiError(400, _SAME_LANGUAGE)
            # The language was detected only after the upload: report the error in the status.
            files.fail(file, _SAME_LANGUAGE)
        else:
            await files.store_terms(file, await requested_glossary(call, pair))
            with call.charged(texts, Budget()) as characters:
                files.translate(file, pair, characters)
    return {"document_id": file.file_id, "document_key": file.secret}


async def report_status(call: Call) -> dict[str, Any]:
    """Returns the status of a document."""
    file = _find_document(call)
    answer: dict[str, Any] = {"document_id": file.file_id, "status": file.status}
    if file.status == "translating":
        # Report the elapsed time, so that clients poll less and less often.
        answer["seconds_remaining"] = 1 + int(max(time.time() - file.changed, 0))
    if file.status == "done":
        answer |= {"seconds_remaining": 0, "billed_characters": file.characters}
    if file.status == "error":
        answer |= {"error_message": file.error, "message": file.error}
    return answer


async def download_document(call: Call) -> FileResponse:
    """Returns a translated document, once."""
    file, files = _find_document(call), call.context.files
    if file.status != "done":
        raise ApiError(503, "Document translation is not done")
    # As with DeepL, it can be fetched once. After a partial download, it stays until it expires.
    removal = BackgroundTask(files.remove, file)
    return FileResponse(files.claim(file), filename=file.translated_name, background=removal)


def _check_format(parameters: Parameters, name: str, suffixes: Sequence[str]) -> None:
    suffix = PurePosixPath(name).suffix.lower()
    if suffix not in suffixes:
        raise ApiError(400, f"Invalid file: the file extension '{suffix}' is not supported.")
    output_format = parameters.text("output_format").lower()
    if output_format and translated_name(name).suffix.lower() != f".{output_format}":
        raise ApiError(400, "output_format not supported.")


def _find_document(call: Call) -> TranslatedFile:
    file = call.context.files.find(call.request.path_params["document_id"])
    if (file.secret, file.owner) != (call.parameters.text("document_key"), call.client.identity):
        raise ApiError(404, "Not found")
    return file


async def requested_glossary(call: Call, pair: Pair) -> Glossary | None:
    """Returns the merged glossaries of a translation request; None = the request has none.

    Raises:
      ApiError: a glossary does not exist, or is for other languages.
    """
    parameters, glossaries = call.parameters, call.context.glossaries
    ids = [name for text in parameters.texts("glossary_ids") for name in text.split(",") if name]
    single_id = parameters.text("glossary_id")
    if not ids and not single_id:
        return None
    if single_id and ids:
        raise ApiError(400, "'glossary_id' and 'glossary_ids' exclude each other.")
    if len(ids) > _MAX_IDS:
        raise ApiError(400, f"'glossary_ids' must not contain more than {_MAX_IDS} entries.")
    if not parameters.text("source_lang"):
        raise ApiError(400, "Use of a glossary requires the source_lang parameter to be specified")
    requested = [glossaries.find(name, call.client.identity) for name in ids or [single_id]]
    return await call.in_thread(glossaries.merge, requested, pair)


async def list_language_pairs(call: Call) -> dict[str, Any]:
    """Lists the language pairs that glossaries may have."""
    pairs = sorted({glossary_pair(*pair) for pair in call.context.service.models})
    return {"supported_languages": [_language_pair(pair) for pair in pairs]}


async def create_glossary(call: Call) -> dict[str, Any]:
    """Creates a glossary, with one dictionary in v2 and several in v3."""
    if _is_v2(call):
        dictionaries = dict([await _read_dictionary(call, call.parameters)])
    elif not (dictionaries := await _read_dictionaries(call)):
        raise ApiError(400, "Glossary dictionaries must be provided")
    create, name = call.context.glossaries.create, call.parameters.text("name")
    return _describe(call, await call.in_thread(create, call.client.identity, name, dictionaries))


async def list_glossaries(call: Call) -> dict[str, Any]:
    """Lists the client's glossaries; in v2, only those with one dictionary."""
    owned = call.context.glossaries.owned_by(call.client.identity)
    visible = [glossary for glossary in owned if _is_visible(call, glossary)]
    return {"glossaries": [_describe(call, glossary) for glossary in visible]}


async def describe_glossary(call: Call) -> dict[str, Any]:
    """Describes a glossary, without its terms."""
    return _describe(call, _find_glossary(call))


async def delete_glossary(call: Call) -> None:
    """Removes a glossary."""
    await call.in_thread(call.context.glossaries.remove, _find_glossary(call))


async def list_entries_v2(call: Call) -> Response:
    """Returns the terms of a glossary as TSV (v2)."""
    [terms] = _find_glossary(call).dictionaries.values()
    accepted = call.request.headers.get("accept", "*/*")
    if not any(kind in accepted for kind in (_TSV, "*/*", "text/*")):
        raise ApiError(415, "No supported media type specified in Accept header")
    return Response(await call.in_thread(as_tsv, terms), media_type=_TSV)


async def list_entries_v3(call: Call) -> Response:
    """Returns the terms of a dictionary (v3)."""
    pair = _required_pair(call.parameters)
    text = await call.in_thread(as_tsv, find_dictionary(_find_glossary(call), pair))
    content = {"entries_format": "tsv", "entries": text}
    return await json_response({"dictionaries": [_language_pair(pair) | content]})


async def change_glossary(call: Call) -> dict[str, Any]:
    """Renames a glossary, and adds terms to its dictionaries."""
    glossary, added = _find_glossary(call), await _read_dictionaries(call)
    dictionaries = {
        pair: glossary.dictionaries.get(pair, {}) | terms for pair, terms in added.items()
    }
    change, name = call.context.glossaries.change, call.parameters.text("name", glossary.name)
    return _describe(call, await call.in_thread(change, glossary, name, dictionaries))


async def replace_dictionary(call: Call) -> dict[str, Any]:
    """Adds or replaces the dictionary of a pair."""
    glossary = _find_glossary(call)
    pair, terms = await _read_dictionary(call, call.parameters)
    await call.in_thread(call.context.glossaries.change, glossary, glossary.name, {pair: terms})
    return _language_pair(pair) | {"entry_count": len(terms)}


async def delete_dictionary(call: Call) -> None:
    """Removes the dictionary of a pair."""
    glossary, pair = _find_glossary(call), _required_pair(call.parameters)
    await call.in_thread(call.context.glossaries.remove, glossary, pair)


def _is_v2(call: Call) -> bool:
    return call.request.url.path.startswith("/v2/")


def _is_visible(call: Call, glossary: StoredGlossary) -> bool:
    """Returns whether the API version of a request can show a glossary: v2 needs a single pair."""
    return len(glossary.dictionaries) == 1 or not _is_v2(call)


def _find_glossary(call: Call) -> StoredGlossary:
    glossary_id = call.request.path_params["glossary_id"]
    glossary = call.context.glossaries.find(glossary_id, call.client.identity)
    if not _is_visible(call, glossary):
        raise ApiError(404, "Glossary not found")
    return glossary


def _required_pair(parameters: Parameters) -> Pair:
    for name in ("source_lang", "target_lang"):
        if not parameters.text(name):
            raise ApiError(400, f"Parameter '{name}' not specified.")
    return glossary_pair(parameters.text("source_lang"), parameters.text("target_lang"))


async def _read_dictionary(call: Call, parameters: Parameters) -> tuple[Pair, Terms]:
    pair = _required_pair(parameters)
    if pair not in {glossary_pair(*served) for served in call.context.service.models}:
        raise ApiError(400, "Unsupported glossary source and target language pair")
    entries_format = parameters.choice("entries_format", FORMATS)
    text = parameters.text("entries")
    return pair, await call.in_thread(read_entries, text, entries_format, pair)


async def _read_dictionaries(call: Call) -> dict[Pair, Terms]:
    contents: Any = call.parameters.raw_value("dictionaries") or []
    if not isinstance(contents, list) or not all(isinstance(content, dict) for content in contents):
        raise ApiError(400, "Missing or invalid argument: dictionaries")
    if len(contents) > _MAX_DICTIONARIES:
        raise ApiError(413, f"dictionaries: expected at most {_MAX_DICTIONARIES:,}.")
    return dict([await _read_dictionary(call, Parameters(content)) for content in contents])


def _describe(call: Call, glossary: StoredGlossary) -> dict[str, Any]:
    """Describes a glossary in the format of the API version."""
    content: dict[str, Any] = {
        "glossary_id": glossary.glossary_id,
        "name": glossary.name,
        "creation_time": glossary.created,
    }
    dictionaries = [
        _language_pair(pair) | {"entry_count": len(terms)}
        for pair, terms in glossary.dictionaries.items()
    ]
    if _is_v2(call):
        return content | {"ready": True} | dictionaries[0]
    return content | {"dictionaries": dictionaries}


def _language_pair(pair: Sequence[str]) -> dict[str, str]:
    return dict(zip(("source_lang", "target_lang"), pair, strict=True))


ROUTES = (
    Endpoint("/v2/translate", translate),
    Endpoint("/v2/languages", list_languages, ("GET", "POST")),
    Endpoint("/v2/usage", report_usage, ("GET", "POST")),
    Endpoint("/v3/style_rules", return_empty_list, ("GET",)),
    Endpoint("/v3/translation_memories", return_empty_list, ("GET",)),
    Endpoint("/v2/document", upload_document),
    Endpoint("/v2/document/{document_id}", report_status, ("GET", "POST")),
    Endpoint("/v2/document/{document_id}/result", download_document, ("GET", "POST")),
    Endpoint("/v2/glossary-language-pairs", list_language_pairs, ("GET",)),
    *(
        endpoint
        for path in ("/v2/glossaries", "/v3/glossaries")
        for endpoint in (
            Endpoint(path, create_glossary, status=201),
            Endpoint(path, list_glossaries, ("GET",)),
            Endpoint(f"{path}/{{glossary_id}}", describe_glossary, ("GET",)),
            Endpoint(f"{path}/{{glossary_id}}", delete_glossary, ("DELETE",), status=204),
        )
    ),
    Endpoint("/v2/glossaries/{glossary_id}/entries", list_entries_v2, ("GET",)),
    Endpoint("/v3/glossaries/{glossary_id}/entries", list_entries_v3, ("GET",)),
    Endpoint("/v3/glossaries/{glossary_id}", change_glossary, ("PATCH",)),
    Endpoint("/v3/glossaries/{glossary_id}/dictionaries", replace_dictionary, ("PUT",)),
    Endpoint(
        "/v3/glossaries/{glossary_id}/dictionaries", delete_dictionary, ("DELETE",), status=204
    ),
    *(
        Endpoint(path, refuse_endpoint, ("GET", "POST", "PUT", "PATCH", "DELETE"), is_open=True)
        for path in ("/v2/{rest:path}", "/v3/{rest:path}")
    ),
)
