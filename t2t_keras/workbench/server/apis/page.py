"""The page, and its routes that are not in LibreTranslate's API."""

import functools
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import Response
from starlette.staticfiles import StaticFiles

from t2t_keras.errors import UserError
from t2t_keras.workbench.server.apis.libretranslate import required
from t2t_keras.workbench.server.context import Context
from t2t_keras.workbench.server.messages import (
    ApiError,
    Parameters,
    json_response,
    read_parameters,
    unless_gone,
)
from t2t_keras.workbench.server.words import PREFIX_TOO_LONG, OtherWords, WordByWord
from t2t_keras.workbench.server.work.budget import Budget
from t2t_keras.workbench.server.work.places import Places, in_own_thread
from t2t_keras.workbench.terms.glossary import Glossary

_FOLDER = Path(__file__).parents[1] / "page"
_MOST_ALTERNATIVES = 8
_MOST_LINES = 10_000
_MOST_TERMS, _MOST_CHARACTERS_OF_TERMS = 10_000, 500_000
_MOST_LINE = 10_000  # characters of q and prefix of /page/alternatives
_GLOSSARIES_AT_ONCE = 4
_MOST_CACHED = 32  # glossaries, for further requests of the same page


def make_router(context: Context) -> APIRouter:
    """Returns the routes."""
    router = APIRouter()
    places = Places(_GLOSSARIES_AT_ONCE, 1)

    @router.post("/page/translate")
    async def translate(request: Request) -> Response:
        parameters = await read_parameters(request)
        client = context.admit(request, parameters)
        text = parameters.text("q")
        context.check_size([text])
        lines = text.split("\n")
        if len(lines) > _MOST_LINES:
            raise ApiError(413, f"Invalid request: expected at most {_MOST_LINES:,} lines")
        pair = context.pair(required(parameters, "source"), required(parameters, "target"))
        budget = context.budget(request, client, [text])
        glossary = await _glossary(parameters, places, budget)
        with context.charged(client, [text], budget):
            work = WordByWord(glossary, context.service.splitter(pair[0]))
            found = await unless_gone(
                request, context.service.run(pair, lines, work, budget), budget
            )
        context.log_texts(lines, [each["text"] for each in found])
        return await json_response({"lines": found})

    @router.post("/page/alternatives")
    async def alternatives(request: Request) -> Response:
        parameters = await read_parameters(request)
        client = context.admit(request, parameters)
        line, prefix = parameters.text("q"), parameters.text("prefix")
        context.check_size([line, prefix])
        for name, text in (("q", line), ("prefix", prefix)):
            if len(text) > _MOST_LINE:
                message = f"{name} has more than {_MOST_LINE:,} characters"
                raise ApiError(400, f"Invalid request: {message}")
        pair = context.pair(required(parameters, "source"), required(parameters, "target"))
        splitters = map(context.service.splitter, pair)
        budget = context.budget(request, client, [line, prefix])
        glossary = await _glossary(parameters, places, budget)
        with context.charged(client, [line, prefix], budget):
            work = OtherWords(prefix, _MOST_ALTERNATIVES, *splitters, glossary)
            running = context.service.run(pair, [line], work, budget)
            try:
                [found] = await unless_gone(request, running, budget)
            except UserError as error:
                if error.code != PREFIX_TOO_LONG:
                    raise
                raise ApiError(400, f"Invalid request: {error}") from error
        return await json_response({"alternatives": found})

    return router


def add_files(app: FastAPI) -> None:
    """Serves the page's files, each by its own route, so that wrong methods of others get 405."""
    files = StaticFiles(directory=_FOLDER)

    def add(path: str, name: str) -> None:
        async def page_file(request: Request) -> Response:
            return await files.get_response(name, request.scope)

        app.add_route(path, page_file, methods=["GET", "HEAD"])

    for file in sorted(_FOLDER.iterdir()):
        add(f"/{file.name}", file.name)
    add("/", "index.html")


async def _glossary(parameters: Parameters, places: Places, budget: Budget) -> Glossary | None:
    terms: Any = parameters.any("glossary") or []
    if not isinstance(terms, list) or not all(
        isinstance(term, list) and len(term) == 2 and all(isinstance(side, str) for side in term)
        for term in terms
    ):
        raise ApiError(400, "Invalid request: expected glossary as a list of [source, target]")
    if len(terms) > _MOST_TERMS:
        raise ApiError(413, f"Invalid request: expected at most {_MOST_TERMS:,} terms")
    if not terms:
        return None
    if sum(len(side) for term in terms for side in term) > _MOST_CHARACTERS_OF_TERMS:
        message = f"expected at most {_MOST_CHARACTERS_OF_TERMS:,} characters of terms"
        raise ApiError(413, f"Invalid request: {message}")
    async with places.place(budget.client):
        with budget.working():
            return await in_own_thread(_compiled, tuple(map(tuple, terms)))


@functools.lru_cache(maxsize=_MOST_CACHED)
def _compiled(pairs: tuple[tuple[str, str], ...]) -> Glossary:
    try:
        return Glossary.of(pairs)
    except UserError as error:
        raise ApiError(400, f"Invalid request: {error}") from error
