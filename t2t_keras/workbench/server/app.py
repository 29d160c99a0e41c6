"""The server as an ASGI application."""

import contextlib
import logging
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from t2t_keras.errors import UserError
from t2t_keras.workbench.server.access import Access, ApiKeys
from t2t_keras.workbench.server.apis import deepl, deepl_glossaries, libretranslate, page
from t2t_keras.workbench.server.config import ServerConfig
from t2t_keras.workbench.server.context import Context
from t2t_keras.workbench.server.endpoints import Call, Endpoint
from t2t_keras.workbench.server.front.gate import Bodies, Gate, error_response, route_of
from t2t_keras.workbench.server.messages import ApiError, read_parameters, where
from t2t_keras.workbench.server.metrics import Metrics
from t2t_keras.workbench.server.models import ModelSource
from t2t_keras.workbench.server.service import TranslationService
from t2t_keras.workbench.server.work.batching import QueueFullError
from t2t_keras.workbench.server.work.shares import JobEndedError

_LOG = logging.getLogger("t2t_keras.server")

_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def make_app(sources: Sequence[ModelSource], config: ServerConfig | None = None) -> Starlette:
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
    context = Context(service, config, access, metrics)

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        context.files.begin()
        yield
        until = app.state.stop_by or time.monotonic() + config.stop_seconds
        await context.files.close(until)
        access.save()  # First, as the process may end while threads are awaited.
        await service.close(max(until - time.monotonic(), 0.0))

    front = [Middleware(Gate, bodies=Bodies(access, config), metrics=metrics)]
    if config.cors:
        cors = Middleware(
            CORSMiddleware,
            allow_origins=config.cors,
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type"],
        )
        front.insert(0, cors)
    handlers: Mapping[Any, Any] = dict.fromkeys(_ERRORS, _refuse)
    app = Starlette(
        routes=_ROUTES, middleware=front, exception_handlers=handlers, lifespan=lifespan
    )
    app.state.context, app.state.stopping, app.state.stop_by = context, False, None
    return app


async def _health(call: Call) -> dict[str, str]:
    return {"status": "ok"}


async def _metrics(call: Call) -> Response:
    call.context.admit_to_metrics(call.request, await read_parameters(call.request))
    return Response(call.context.metrics.text(), media_type=_METRICS_TYPE)


_ROUTES = (
    Endpoint("/health", _health, ("GET",), is_open=True),
    Endpoint("/metrics", _metrics, ("GET",), is_open=True),  # It asks for a key itself.
    *libretranslate.ROUTES,
    *deepl.ROUTES,
    *deepl_glossaries.ROUTES,
    *page.ROUTES,
    *deepl.LAST_ROUTES,
    *page.FILE_ROUTES,
)


def _refusal(error: Exception) -> ApiError:
    if isinstance(error, ApiError):
        return error
    if isinstance(error, HTTPException):
        return ApiError(error.status_code, str(error.detail))
    if isinstance(error, ClientDisconnect):
        return ApiError(499, "The client has closed the connection.")
    if isinstance(error, QueueFullError):
        return ApiError(429, "Too many requests: too many lines wait", 1)
    if isinstance(error, JobEndedError):
        return ApiError(503, str(error), 5 * (error.code == "server_stops"))
    return ApiError(500, "The text cannot be translated.")


async def _refuse(request: Request, error: Exception) -> Response:
    refusal = _refusal(error)
    if refusal.status == 500:
        _LOG.error("%s\n%s", route_of(request.scope), where(error))
    response = error_response(
        request, refusal.status, refusal.message, refusal.retry_after, refusal.detail
    )
    response.headers.update(getattr(error, "headers", None) or {})  # Such as Allow.
    return response


_ERRORS = (ApiError, HTTPException, ClientDisconnect, QueueFullError, UserError)
