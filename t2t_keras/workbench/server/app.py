"""The server as an ASGI application."""

import contextlib
import logging
import time
from collections.abc import AsyncIterator, Sequence

from fastapi import FastAPI, Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect

from t2t_keras.errors import UserError
from t2t_keras.workbench.server.access import Access, ApiKeys
from t2t_keras.workbench.server.apis import (
    deepl,
    deepl_documents,
    deepl_glossaries,
    libretranslate,
    page,
    specification,
)
from t2t_keras.workbench.server.config import ServerConfig
from t2t_keras.workbench.server.context import Context
from t2t_keras.workbench.server.front.bodies import Bodies
from t2t_keras.workbench.server.front.gate import Gate, error_response, route_of
from t2t_keras.workbench.server.messages import ApiError, read_parameters, where
from t2t_keras.workbench.server.metrics import Metrics
from t2t_keras.workbench.server.models import ModelSource
from t2t_keras.workbench.server.service import TranslationService
from t2t_keras.workbench.server.work.batching import QueueFullError
from t2t_keras.workbench.server.work.budget import JobEndedError

_LOG = logging.getLogger("t2t_keras.server")

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
        until = app.state.stop_by or time.monotonic() + config.stop_seconds
        await context.files.close(until)
        access.save()  # First, as the process may end while threads are awaited.
        await service.close(max(until - time.monotonic(), 0.0))

    # Its own pages of documentation load scripts from a network.
    app = FastAPI(
        title="t2t-serve", lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None
    )
    app.state.context, app.state.stopping, app.state.stop_by = context, False, None
    _handle_errors(app)
    _add_operations(app, metrics, context)
    for api in (libretranslate, deepl, deepl_glossaries, deepl_documents, page):
        app.include_router(api.make_router(context))
    app.include_router(specification.make_router())
    app.include_router(deepl.make_last_router())
    page.add_files(app)
    app.add_middleware(Gate, bodies=Bodies(access, config), metrics=metrics)
    if config.cors:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=config.cors,
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type"],
        )
    return app


def _add_operations(app: FastAPI, metrics: Metrics, context: Context) -> None:
    @app.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/metrics")
    async def prometheus(request: Request) -> Response:
        context.admit_to_metrics(request, await read_parameters(request))
        return Response(metrics.text(), media_type=_METRICS_TYPE)


def _handle_errors(app: FastAPI) -> None:
    @app.exception_handler(ApiError)
    async def refused(request: Request, error: ApiError) -> Response:
        return error_response(request, error.status, error.message, error.retry_after, error.detail)

    @app.exception_handler(HTTPException)
    async def not_routed(request: Request, error: HTTPException) -> Response:
        response = error_response(request, error.status_code, str(error.detail))
        response.headers.update(error.headers or {})  # Such as Allow.
        return response

    @app.exception_handler(QueueFullError)
    async def queue_full(request: Request, error: QueueFullError) -> Response:
        return error_response(request, 429, "Too many requests: too many lines wait", 1)

    @app.exception_handler(JobEndedError)
    async def ended(request: Request, error: JobEndedError) -> Response:
        return error_response(request, 503, str(error), 5 * (error.code == "server_stops"))

    @app.exception_handler(UserError)
    async def cannot(request: Request, error: UserError) -> Response:
        _LOG.error("%s\n%s", route_of(request.scope), where(error))
        return error_response(request, 500, "The text cannot be translated.")

    @app.exception_handler(ClientDisconnect)
    async def gone(request: Request, error: ClientDisconnect) -> Response:
        return error_response(request, 499, "The client has closed the connection.")
