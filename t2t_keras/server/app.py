"""The server as an ASGI application."""

import contextlib
import logging
import time
from collections.abc import AsyncIterator, Sequence

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from t2t_keras.errors import UserError
from t2t_keras.server.access import Access, ApiKeys
from t2t_keras.server.apis import deepl, deepl_documents, deepl_glossaries, libretranslate, page
from t2t_keras.server.batching import QueueFullError
from t2t_keras.server.config import MEBIBYTE, ServerConfig
from t2t_keras.server.context import Context
from t2t_keras.server.messages import ApiError, where
from t2t_keras.server.metrics import Metrics
from t2t_keras.server.models import ModelSource
from t2t_keras.server.service import TranslationService

_LOG = logging.getLogger("t2t_keras.server")

_DEEPL = ("/v2/", "/v3/")
_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def make_app(sources: Sequence[ModelSource], config: ServerConfig | None = None) -> FastAPI:
    """Loads models and returns the application that serves them.

    Args:
      sources: of the models, at least one.
      config: how the server works.

    Raises:
      UserError: a model cannot be loaded, or a setting cannot be used.
    """
    config = config or ServerConfig()
    metrics = Metrics()
    keys = ApiKeys(config.api_keys_file) if config.api_keys_file else None
    usage = config.storage / "usage.json" if config.storage else None
    access = Access(keys, config.requests_per_minute, usage)
    service = TranslationService(sources, config, metrics)
    context = Context(service, config, access)

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        context.files.begin()
        yield
        await context.files.close()
        await service.close()
        access.save()

    # Its own pages of documentation load scripts from a network.
    app = FastAPI(
        title="t2t-serve", lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None
    )
    app.state.context, app.state.stopping = context, False
    _handle_errors(app)
    _add_operations(app, metrics)
    for api in (libretranslate, deepl, deepl_glossaries, deepl_documents, page):
        app.include_router(api.make_router(context))
    app.include_router(deepl.make_last_router())
    page.mount(app)
    app.add_middleware(Gate, config=config, metrics=metrics)
    if config.cors:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=config.cors,
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type"],
        )
    return app


def _add_operations(app: FastAPI, metrics: Metrics) -> None:
    @app.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/metrics")
    async def prometheus() -> Response:
        return Response(metrics.text(), media_type=_METRICS_TYPE)


def _answer(
    request: Request, status: int, message: str, retry_after: int = 0, detail: str = ""
) -> Response:
    headers = {"Retry-After": str(retry_after)} if retry_after else None
    if request.url.path.startswith(_DEEPL):
        content = {"message": message} | ({"detail": detail} if detail else {})
        return JSONResponse(content, status, headers)
    if status == 429:
        message = f"Slowdown: {message}"
    return JSONResponse({"error": message}, status, headers)


def _handle_errors(app: FastAPI) -> None:
    @app.exception_handler(ApiError)
    async def refused(request: Request, error: ApiError) -> Response:
        return _answer(request, error.status, error.message, error.retry_after, error.detail)

    @app.exception_handler(HTTPException)
    async def not_routed(request: Request, error: HTTPException) -> Response:
        return _answer(request, error.status_code, str(error.detail))

    @app.exception_handler(QueueFullError)
    async def queue_full(request: Request, error: QueueFullError) -> Response:
        return _answer(request, 429, "Too many requests: too many lines wait", 1)

    @app.exception_handler(UserError)
    async def cannot(request: Request, error: UserError) -> Response:
        _LOG.error("%s\n%s", _route(request.scope), where(error))
        return _answer(request, 500, "The text cannot be translated.")

    @app.exception_handler(ClientDisconnect)
    async def gone(request: Request, error: ClientDisconnect) -> Response:
        return _answer(request, 499, "The client has closed the connection.")


def _route(scope: Scope) -> str:
    return getattr(scope.get("route"), "path", "none")


class Gate:
    """Measures, logs and bounds every request, around everything else.

    A log line has the route, not the address: addresses have the names of files and, from careless
    clients, text.
    """

    def __init__(self, app: ASGIApp, config: ServerConfig, metrics: Metrics):
        self._app, self._config, self._metrics = app, config, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, begun, status = time.perf_counter(), False, 500

        async def observed(message: Message) -> None:
            nonlocal begun, status
            if message["type"] == "http.response.start":
                begun, status = True, message["status"]
                message["headers"] = [
                    *message["headers"],
                    (b"x-content-type-options", b"nosniff"),
                    (b"referrer-policy", b"no-referrer"),
                    *[(b"connection", b"close")] * scope["app"].state.stopping,
                ]
            await send(message)

        self._metrics.in_flight.inc()
        try:
            await self._app(scope, self._bounded(scope, receive), observed)
        except Exception as error:
            # uvicorn would log its message.
            _LOG.error("%s\n%s", _route(scope), where(error))
            if not begun:
                failed = _answer(Request(scope), 500, "Internal server error")
                await failed(scope, receive, observed)
        finally:
            self._metrics.in_flight.dec()
            if form := scope.get("state", {}).get("form"):
                await form.close()
            seconds = time.perf_counter() - began
            route = _route(scope)
            self._metrics.requests.labels(scope["method"], route, status).inc()
            self._metrics.seconds.labels(route).observe(seconds)
            client = scope.get("state", {}).get("client", "")
            _LOG.info("%s %s %d %.0f ms %s", scope["method"], route, status, 1000 * seconds, client)

    def _bounded(self, scope: Scope, receive: Receive) -> Receive:
        """Returns `receive` that raises `ApiError` behind the most bytes that a body may have."""
        most = _most_bytes(scope["path"], self._config)
        left = most
        length = dict(scope["headers"]).get(b"content-length", b"0")
        if length.isdigit() and int(length) > most:
            left = -1

        async def bounded() -> Message:
            nonlocal left
            if left < 0:
                raise _too_large(most)
            message = await receive()
            left -= len(message.get("body", b""))
            if left < 0:
                raise _too_large(most)
            return message

        return bounded


def _most_bytes(path: str, config: ServerConfig) -> int:
    if path in ("/translate_file", "/v2/document"):
        return config.max_file_bytes + MEBIBYTE
    if "/glossaries" in path:
        return 11 * MEBIBYTE
    # A character is 12 bytes at most, as two escapes in JSON or four of a form.
    return 12 * config.max_characters + MEBIBYTE


def _too_large(most: int) -> ApiError:
    return ApiError(413, f"Request entity too large: expected at most {most:,} bytes")
