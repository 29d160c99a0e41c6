"""The page, and its routes that are not in LibreTranslate's API."""

import functools
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.staticfiles import StaticFiles

from t2t_keras.errors import UserError
from t2t_keras.workbench.server.apis.libretranslate import required
from t2t_keras.workbench.server.endpoints import Call, Endpoint
from t2t_keras.workbench.server.messages import ApiError, json_response, unless_gone
from t2t_keras.workbench.server.words import PREFIX_TOO_LONG, OtherWords, WordByWord
from t2t_keras.workbench.server.work.shares import Budget, in_own_thread
from t2t_keras.workbench.terms.glossary import Glossary

_FOLDER = Path(__file__).parents[1] / "page"
_FILES = StaticFiles(directory=_FOLDER)
_MOST_ALTERNATIVES = 8
_MOST_LINES = 10_000
_MOST_TERMS, _MOST_CHARACTERS_OF_TERMS = 10_000, 500_000
_MOST_LINE = 10_000  # characters of q and prefix of /page/alternatives
_MOST_CACHED = 32  # glossaries, for further requests of the same page


async def translate(call: Call) -> Response:
    """Translates lines word by word."""
    parameters, context = call.parameters, call.context
    text = parameters.text("q")
    context.check_size([text])
    lines = text.split("\n")
    if len(lines) > _MOST_LINES:
        raise ApiError(413, f"Invalid request: expected at most {_MOST_LINES:,} lines")
    pair = context.pair(required(parameters, "source"), required(parameters, "target"))
    budget = call.budget([text])
    glossary = await _glossary(call, budget)
    with call.charged([text], budget):
        work = WordByWord(context.service.splitter(pair[0]), glossary=glossary)
        running = context.service.run(pair, lines, work, budget)
        translations = await unless_gone(call.request, running, budget)
    context.log_texts(lines, [translation["text"] for translation in translations])
    return await json_response({"lines": translations})


async def alternatives(call: Call) -> Response:
    """Returns how the translation of a line may go on after a prefix."""
    parameters, context = call.parameters, call.context
    line, prefix = parameters.text("q"), parameters.text("prefix")
    context.check_size([line, prefix])
    for name, text in (("q", line), ("prefix", prefix)):
        if len(text) > _MOST_LINE:
            message = f"{name} has more than {_MOST_LINE:,} characters"
            raise ApiError(400, f"Invalid request: {message}")
    pair = context.pair(required(parameters, "source"), required(parameters, "target"))
    split, split_target = map(context.service.splitter, pair)
    budget = call.budget([line, prefix])
    glossary = await _glossary(call, budget)
    with call.charged([line, prefix], budget):
        work = OtherWords(prefix, _MOST_ALTERNATIVES, split, split_target, glossary=glossary)
        running = context.service.run(pair, [line], work, budget)
        try:
            [continuations] = await unless_gone(call.request, running, budget)
        except UserError as error:
            if error.code != PREFIX_TOO_LONG:
                raise
            raise ApiError(400, f"Invalid request: {error}") from error
    return await json_response({"alternatives": continuations})


def _file_route(path: str, name: str) -> Route:
    """Returns the route of one of the page's files, so that wrong methods of others get 405."""

    async def page_file(request: Request) -> Response:
        return await _FILES.get_response(name, request.scope)

    return Route(path, page_file)


async def _glossary(call: Call, budget: Budget) -> Glossary | None:
    terms: Any = call.parameters.any("glossary") or []
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
    async with call.context.places.place(call.sharer):
        with budget.working():
            return await in_own_thread(_compiled, tuple(map(tuple, terms)))


@functools.lru_cache(maxsize=_MOST_CACHED)
def _compiled(pairs: tuple[tuple[str, str], ...]) -> Glossary:
    try:
        return Glossary.of(pairs)
    except UserError as error:
        raise ApiError(400, f"Invalid request: {error}") from error


ROUTES = (
    Endpoint("/page/translate", translate),
    Endpoint("/page/alternatives", alternatives),
)
FILE_ROUTES = (
    _file_route("/", "index.html"),
    *(_file_route(f"/{path.name}", path.name) for path in sorted(_FOLDER.iterdir())),
)
