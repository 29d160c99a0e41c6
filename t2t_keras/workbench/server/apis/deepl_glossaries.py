"""DeepL's API for glossaries: of one pair of languages (v2) and of several (v3)."""

from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from t2t_keras.workbench.server.access import Client
from t2t_keras.workbench.server.context import Context
from t2t_keras.workbench.server.glossaries import (
    FORMATS,
    Glossaries,
    Pair,
    StoredGlossary,
    Terms,
    as_tsv,
    dictionary,
    glossary_pair,
    read_entries,
)
from t2t_keras.workbench.server.messages import ApiError, Parameters, json_response, read_parameters
from t2t_keras.workbench.terms.glossary import Glossary

_TSV = "text/tab-separated-values"
_MOST_IDS, _MOST_DICTIONARIES = 5, 1_000


def make_router(context: Context) -> APIRouter:
    """Returns the routes of both versions."""
    router, store = APIRouter(), context.glossaries
    _add_v2(router, context, store)
    _add_v3(router, context, store)
    return router


async def requested_glossary(
    context: Context, client: Client, parameters: Parameters, pair: Pair
) -> Glossary | None:
    """Returns the terms that a request for a translation names; None = it names none.

    Raises:
      ApiError: there is no such glossary, or it is not for these languages.
    """
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
    store = context.glossaries
    found = [store.find(each, client.identity) for each in ids or [single]]
    return await context.beside(client, store.terms, found, pair)


def _add_v2(router: APIRouter, context: Context, store: Glossaries) -> None:
    @router.get("/v2/glossary-language-pairs")
    async def pairs(request: Request) -> dict[str, Any]:
        context.admit(request)
        found = sorted({glossary_pair(*pair) for pair in context.service.models})
        return {"supported_languages": [_languages(pair) for pair in found]}

    @router.post("/v2/glossaries", status_code=201)
    async def create(request: Request) -> dict[str, Any]:
        client, parameters = await _asked(context, request)
        pair, terms = await _dictionary(context, client, parameters)
        name, terms_of = parameters.text("name"), {pair: terms}
        return _as_v2(await context.beside(client, store.create, client.identity, name, terms_of))

    @router.get("/v2/glossaries")
    async def list_all(request: Request) -> dict[str, Any]:
        stored = store.of(context.admit(request).identity)
        return {"glossaries": [_as_v2(each) for each in stored if len(each.dictionaries) == 1]}

    @router.get("/v2/glossaries/{glossary_id}")
    async def get(request: Request, glossary_id: str) -> dict[str, Any]:
        return _as_v2(_single(store, glossary_id, context.admit(request)))

    @router.get("/v2/glossaries/{glossary_id}/entries")
    async def entries(request: Request, glossary_id: str) -> Response:
        client = context.admit(request)
        stored = _single(store, glossary_id, client)
        accepted = request.headers.get("accept", "*/*")
        if not any(kind in accepted for kind in (_TSV, "*/*", "text/*")):
            raise ApiError(415, "No supported media type specified in Accept header")
        [terms] = stored.dictionaries.values()
        return Response(await context.beside(client, as_tsv, terms), media_type=_TSV)

    @router.delete("/v2/glossaries/{glossary_id}", status_code=204)
    async def delete(request: Request, glossary_id: str) -> None:
        client = context.admit(request)
        await context.beside(client, store.remove, _single(store, glossary_id, client))


def _add_v3(router: APIRouter, context: Context, store: Glossaries) -> None:
    @router.post("/v3/glossaries", status_code=201)
    async def create(request: Request) -> dict[str, Any]:
        client, parameters = await _asked(context, request)
        if not (dictionaries := await _dictionaries(context, client, parameters)):
            raise ApiError(400, "Glossary dictionaries must be provided")
        name = parameters.text("name")
        return _as_v3(
            await context.beside(client, store.create, client.identity, name, dictionaries)
        )

    @router.get("/v3/glossaries")
    async def list_all(request: Request) -> dict[str, Any]:
        return {"glossaries": [_as_v3(each) for each in store.of(context.admit(request).identity)]}

    @router.get("/v3/glossaries/{glossary_id}")
    async def get(request: Request, glossary_id: str) -> dict[str, Any]:
        return _as_v3(store.find(glossary_id, context.admit(request).identity))

    @router.patch("/v3/glossaries/{glossary_id}")
    async def patch(request: Request, glossary_id: str) -> dict[str, Any]:
        client, parameters = await _asked(context, request)
        stored = store.find(glossary_id, client.identity)
        given = await _dictionaries(context, client, parameters)
        merged = {pair: stored.dictionaries.get(pair, {}) | given[pair] for pair in given}
        name = parameters.text("name", stored.name)
        return _as_v3(await context.beside(client, store.change, stored, name, merged))

    @router.delete("/v3/glossaries/{glossary_id}", status_code=204)
    async def delete(request: Request, glossary_id: str) -> None:
        client = context.admit(request)
        await context.beside(client, store.remove, store.find(glossary_id, client.identity))

    @router.get("/v3/glossaries/{glossary_id}/entries")
    async def entries(request: Request, glossary_id: str) -> Response:
        client, parameters = await _asked(context, request)
        pair = _pair(parameters)
        terms = dictionary(store.find(glossary_id, client.identity), pair)
        text = await context.beside(client, as_tsv, terms)
        content = {"entries_format": "tsv", "entries": text}
        return await json_response({"dictionaries": [_languages(pair) | content]})

    @router.put("/v3/glossaries/{glossary_id}/dictionaries")
    async def put(request: Request, glossary_id: str) -> dict[str, Any]:
        client, parameters = await _asked(context, request)
        stored = store.find(glossary_id, client.identity)
        pair, terms = await _dictionary(context, client, parameters)
        await context.beside(client, store.change, stored, stored.name, {pair: terms})
        return _languages(pair) | {"entry_count": len(terms)}

    @router.delete("/v3/glossaries/{glossary_id}/dictionaries", status_code=204)
    async def delete_dictionary(request: Request, glossary_id: str) -> None:
        client, parameters = await _asked(context, request)
        stored = store.find(glossary_id, client.identity)
        await context.beside(client, store.remove, stored, _pair(parameters))


async def _asked(context: Context, request: Request) -> tuple[Client, Parameters]:
    parameters = await read_parameters(request)
    return context.admit(request, parameters), parameters


def _single(store: Glossaries, glossary_id: str, client: Client) -> StoredGlossary:
    """Returns a glossary of one pair, which is all that v2 knows."""
    stored = store.find(glossary_id, client.identity)
    if len(stored.dictionaries) != 1:
        raise ApiError(404, "Glossary not found")
    return stored


def _pair(parameters: Parameters) -> Pair:
    for name in ("source_lang", "target_lang"):
        if not parameters.text(name):
            raise ApiError(400, f"Parameter '{name}' not specified.")
    return glossary_pair(parameters.text("source_lang"), parameters.text("target_lang"))


async def _dictionary(
    context: Context, client: Client, parameters: Parameters
) -> tuple[Pair, Terms]:
    pair = _pair(parameters)
    if pair not in {glossary_pair(*each) for each in context.service.models}:
        raise ApiError(400, "Unsupported glossary source and target language pair")
    kind = parameters.choice("entries_format", FORMATS)
    return pair, await context.beside(client, read_entries, parameters.text("entries"), kind, pair)


async def _dictionaries(
    context: Context, client: Client, parameters: Parameters
) -> dict[Pair, Terms]:
    found: Any = parameters.any("dictionaries") or []
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise ApiError(400, "Missing or invalid argument: dictionaries")
    if len(found) > _MOST_DICTIONARIES:
        raise ApiError(413, f"dictionaries: expected at most {_MOST_DICTIONARIES:,}.")
    return dict([await _dictionary(context, client, Parameters(each)) for each in found])


def _as_v2(stored: StoredGlossary) -> dict[str, Any]:
    [(pair, terms)] = stored.dictionaries.items()
    return {
        "glossary_id": stored.glossary_id,
        "name": stored.name,
        "ready": True,
        **_languages(pair),
        "creation_time": stored.created,
        "entry_count": len(terms),
    }


def _as_v3(stored: StoredGlossary) -> dict[str, Any]:
    return {
        "glossary_id": stored.glossary_id,
        "name": stored.name,
        "dictionaries": [
            _languages(pair) | {"entry_count": len(terms)}
            for pair, terms in stored.dictionaries.items()
        ],
        "creation_time": stored.created,
    }


def _languages(pair: Sequence[str]) -> dict[str, str]:
    return dict(zip(("source_lang", "target_lang"), pair, strict=True))
