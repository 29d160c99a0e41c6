"""The page, and what it asks besides LibreTranslate's API."""

import functools
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from starlette.staticfiles import StaticFiles

from t2t_keras.errors import UserError
from t2t_keras.server.apis.libretranslate import required
from t2t_keras.server.context import Context
from t2t_keras.server.messages import ApiError, Parameters, read_parameters, unless_gone
from t2t_keras.server.words import OtherWords, WordByWord
from t2t_keras.text.glossary import Glossary

_FOLDER = Path(__file__).parents[1] / "page"
_MOST_ALTERNATIVES = 8
_MOST_LINES = 10_000
_MOST_TERMS = 10_000
_MOST_KEPT = 32  # glossaries, for requests of the same page


def make_router(context: Context) -> APIRouter:
    """Returns the routes."""
    router = APIRouter()

    @router.post("/page/translate")
    async def translate(request: Request) -> dict[str, Any]:
        parameters = await read_parameters(request)
        client = context.admit(request, parameters)
        text = parameters.text("q")
        context.check_size([text])
        lines = text.split("\n")
        if len(lines) > _MOST_LINES:
            raise ApiError(413, f"Invalid request: expected at most {_MOST_LINES:,} lines")
        pair = context.pair(required(parameters, "source"), required(parameters, "target"))
        work = WordByWord(_glossary(parameters), context.service.splitter(pair[0]))
        with context.charged(client, [text]):
            found = await unless_gone(request, context.service.run(pair, lines, work))
        context.log_texts(lines, [each["text"] for each in found])
        return {"lines": found}

    @router.post("/page/alternatives")
    async def alternatives(request: Request) -> dict[str, Any]:
        parameters = await read_parameters(request)
        client = context.admit(request, parameters)
        line, prefix = parameters.text("q"), parameters.text("prefix")
        context.check_size([line, prefix])
        pair = context.pair(required(parameters, "source"), required(parameters, "target"))
        splitters = map(context.service.splitter, pair)
        work = OtherWords(prefix, _MOST_ALTERNATIVES, *splitters, _glossary(parameters))
        with context.charged(client, [line]):
            [found] = await unless_gone(request, context.service.run(pair, [line], work))
        return {"alternatives": found}

    return router


def mount(app: FastAPI) -> None:
    """Serves the page's files at /, behind all routes."""
    if (_FOLDER / "index.html").exists():
        app.mount("/", StaticFiles(directory=_FOLDER, html=True), name="page")


def _glossary(parameters: Parameters) -> Glossary | None:
    found: Any = parameters.any("glossary") or []
    if not isinstance(found, list) or not all(
        isinstance(pair, list) and len(pair) == 2 and all(isinstance(each, str) for each in pair)
        for pair in found
    ):
        raise ApiError(400, "Invalid request: expected glossary as a list of [source, target]")
    if len(found) > _MOST_TERMS:
        raise ApiError(413, f"Invalid request: expected at most {_MOST_TERMS:,} terms")
    return _compiled(tuple(map(tuple, found))) if found else None


@functools.lru_cache(maxsize=_MOST_KEPT)
def _compiled(pairs: tuple[tuple[str, str], ...]) -> Glossary:
    try:
        return Glossary.of(pairs)
    except UserError as error:
        raise ApiError(400, f"Invalid request: {error}") from error
