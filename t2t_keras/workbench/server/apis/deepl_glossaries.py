"""DeepL's API for glossaries: of one pair of languages (v2) and of several (v3)."""

from collections.abc import Sequence
from typing import Any

from starlette.responses import Response

from t2t_keras.workbench.server.endpoints import Call, Endpoint
from t2t_keras.workbench.server.glossaries import (
    FORMATS,
    Pair,
    StoredGlossary,
    Terms,
    as_tsv,
    dictionary,
    glossary_pair,
    read_entries,
)
from t2t_keras.workbench.server.messages import ApiError, Parameters, json_response
from t2t_keras.workbench.terms.glossary import Glossary

_TSV = "text/tab-separated-values"
_MOST_IDS, _MOST_DICTIONARIES = 5, 1_000


async def requested_glossary(call: Call, pair: Pair) -> Glossary | None:
    """Returns the terms that a request for a translation names; None = it names none.

    Raises:
      ApiError: there is no such glossary, or it is not for these languages.
    """
    parameters, store = call.parameters, call.context.glossaries
    ids = [each for text in parameters.texts("glossary_ids") for each in text.split(",") if each]
    single = parameters.text("glossary_id")
    if not ids and not single:
        return None
    if single and ids:
        raise ApiError(400, "'glossary_id' and 'glossary_ids' exclude each other.")
    if len(ids) > _MOST_IDS:
        raise ApiError(400, f"'glossary_ids' must not contain more than {_MOST_IDS} entries.")
    if not parameters.text("source_lang"):
        raise ApiError(400, "Use of a glossary requires the source_lang parameter to be specified")
    named = [store.find(name, call.client.identity) for name in ids or [single]]
    return await call.beside(store.terms, named, pair)


async def language_pairs(call: Call) -> dict[str, Any]:
    """Lists the pairs of languages that a glossary may be for."""
    pairs = sorted({glossary_pair(*pair) for pair in call.context.service.models})
    return {"supported_languages": [_languages(pair) for pair in pairs]}


async def create(call: Call) -> dict[str, Any]:
    """Makes a glossary: of one dictionary in v2, of several in v3."""
    if _is_v2(call):
        dictionaries = dict([await _dictionary(call, call.parameters)])
    elif not (dictionaries := await _dictionaries(call)):
        raise ApiError(400, "Glossary dictionaries must be provided")
    create, name = call.context.glossaries.create, call.parameters.text("name")
    return _as_json(call, await call.beside(create, call.client.identity, name, dictionaries))


async def list_all(call: Call) -> dict[str, Any]:
    """Lists the client's glossaries: in v2, those of one dictionary."""
    glossaries = call.context.glossaries.of(call.client.identity)
    return {"glossaries": [_as_json(call, each) for each in glossaries if _is_known(call, each)]}


async def describe(call: Call) -> dict[str, Any]:
    """Returns what there is to know of a glossary, but its terms."""
    return _as_json(call, _find(call))


async def delete(call: Call) -> None:
    """Removes a glossary."""
    await call.beside(call.context.glossaries.remove, _find(call))


async def entries_as_text(call: Call) -> Response:
    """Returns the terms of a glossary of v2."""
    [terms] = _find(call).dictionaries.values()
    accepted = call.request.headers.get("accept", "*/*")
    if not any(kind in accepted for kind in (_TSV, "*/*", "text/*")):
        raise ApiError(415, "No supported media type specified in Accept header")
    return Response(await call.beside(as_tsv, terms), media_type=_TSV)


async def entries(call: Call) -> Response:
    """Returns the terms of a dictionary."""
    pair = _pair(call.parameters)
    text = await call.beside(as_tsv, dictionary(_find(call), pair))
    content = {"entries_format": "tsv", "entries": text}
    return await json_response({"dictionaries": [_languages(pair) | content]})


async def change(call: Call) -> dict[str, Any]:
    """Renames a glossary, and adds terms to its dictionaries."""
    stored, added = _find(call), await _dictionaries(call)
    merged = {pair: stored.dictionaries.get(pair, {}) | terms for pair, terms in added.items()}
    name = call.parameters.text("name", stored.name)
    return _as_json(call, await call.beside(call.context.glossaries.change, stored, name, merged))


async def replace_dictionary(call: Call) -> dict[str, Any]:
    """Gives a glossary a dictionary instead of the one that it may have for a pair."""
    stored = _find(call)
    pair, terms = await _dictionary(call, call.parameters)
    await call.beside(call.context.glossaries.change, stored, stored.name, {pair: terms})
    return _languages(pair) | {"entry_count": len(terms)}


async def delete_dictionary(call: Call) -> None:
    """Removes the dictionary of a pair."""
    await call.beside(call.context.glossaries.remove, _find(call), _pair(call.parameters))


def _is_v2(call: Call) -> bool:
    return call.request.url.path.startswith("/v2/")


def _is_known(call: Call, stored: StoredGlossary) -> bool:
    """Returns whether the version of the API has such glossaries: v2's are of one pair."""
    return len(stored.dictionaries) == 1 or not _is_v2(call)


def _find(call: Call) -> StoredGlossary:
    name = call.request.path_params["glossary_id"]
    stored = call.context.glossaries.find(name, call.client.identity)
    if not _is_known(call, stored):
        raise ApiError(404, "Glossary not found")
    return stored


def _pair(parameters: Parameters) -> Pair:
    for name in ("source_lang", "target_lang"):
        if not parameters.text(name):
            raise ApiError(400, f"Parameter '{name}' not specified.")
    return glossary_pair(parameters.text("source_lang"), parameters.text("target_lang"))


async def _dictionary(call: Call, parameters: Parameters) -> tuple[Pair, Terms]:
    pair = _pair(parameters)
    if pair not in {glossary_pair(*each) for each in call.context.service.models}:
        raise ApiError(400, "Unsupported glossary source and target language pair")
    kind = parameters.choice("entries_format", FORMATS)
    return pair, await call.beside(read_entries, parameters.text("entries"), kind, pair)


async def _dictionaries(call: Call) -> dict[Pair, Terms]:
    contents: Any = call.parameters.any("dictionaries") or []
    if not isinstance(contents, list) or not all(isinstance(each, dict) for each in contents):
        raise ApiError(400, "Missing or invalid argument: dictionaries")
    if len(contents) > _MOST_DICTIONARIES:
        raise ApiError(413, f"dictionaries: expected at most {_MOST_DICTIONARIES:,}.")
    return dict([await _dictionary(call, Parameters(each)) for each in contents])


def _as_json(call: Call, stored: StoredGlossary) -> dict[str, Any]:
    """Returns what the version of the API tells of a glossary."""
    content: dict[str, Any] = {
        "glossary_id": stored.glossary_id,
        "name": stored.name,
        "creation_time": stored.created,
    }
    dictionaries = [
        _languages(pair) | {"entry_count": len(terms)}
        for pair, terms in stored.dictionaries.items()
    ]
    if _is_v2(call):
        return content | {"ready": True} | dictionaries[0]
    return content | {"dictionaries": dictionaries}


def _languages(pair: Sequence[str]) -> dict[str, str]:
    return dict(zip(("source_lang", "target_lang"), pair, strict=True))


ROUTES = (
    Endpoint("/v2/glossary-language-pairs", language_pairs, ("GET",)),
    *(
        endpoint
        for path in ("/v2/glossaries", "/v3/glossaries")
        for endpoint in (
            Endpoint(path, create, status=201),
            Endpoint(path, list_all, ("GET",)),
            Endpoint(f"{path}/{{glossary_id}}", describe, ("GET",)),
            Endpoint(f"{path}/{{glossary_id}}", delete, ("DELETE",), status=204),
        )
    ),
    Endpoint("/v2/glossaries/{glossary_id}/entries", entries_as_text, ("GET",)),
    Endpoint("/v3/glossaries/{glossary_id}/entries", entries, ("GET",)),
    Endpoint("/v3/glossaries/{glossary_id}", change, ("PATCH",)),
    Endpoint("/v3/glossaries/{glossary_id}/dictionaries", replace_dictionary, ("PUT",)),
    Endpoint(
        "/v3/glossaries/{glossary_id}/dictionaries", delete_dictionary, ("DELETE",), status=204
    ),
)
