"""The ASGI application, and its outermost layer, which limits, measures and logs every request.

Bodies are limited in size, and searched for a key before they are parsed or stored.
"""

import collections
import contextlib
import itertools
import json
import logging
import re
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import unquote_plus

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from t2t_keras.errors import UserError
from t2t_keras.workbench.server import deepl, libretranslate, page, page_api
from t2t_keras.workbench.server.access import Access, ApiKeys, network_of
from t2t_keras.workbench.server.batching import QueueFullError
from t2t_keras.workbench.server.config import MEBIBYTE, ServerConfig
from t2t_keras.workbench.server.endpoints import Call, Context, Endpoint
from t2t_keras.workbench.server.models import ModelSource
from t2t_keras.workbench.server.requests import (
    MAX_FIELDS,
    ApiError,
    JobEndedError,
    authorization_key,
    content_kind,
    decode_form,
    describe_stacks,
    read_parameters,
)
from t2t_keras.workbench.server.service import Metrics, TranslationService

_FILE_ROUTES = ("/translate_file", "/v2/document")
# A form with a file must have the API key within this many bytes, unless a header has it.
_MAX_BYTES_BEFORE_KEY = MEBIBYTE
# Maximum bytes of unanswered requests: in total, and for each address.
_MAX_HELD_BYTES, _MAX_HELD_BYTES_PER_ADDRESS = 1 << 30, 256 * MEBIBYTE

# Patterns of keys in bodies. Bounded repetitions make a search take linear time.
_FORM_KEY = re.compile(rb"(?:^|&)(?:api_key|auth_key)=([^&]{1,1000})")
_JSON_KEY = re.compile(
    rb'"(?:api_key|auth_key)"\s{0,16}:\s{0,16}("(?:[^"\\\x00-\x1f]|\\.){1,1000}")'
)
_MULTIPART_KEY = re.compile(
    rb'name="?(?:api_key|auth_key)"?[^\r\n]{0,200}\r\n(?:[^\r\n]{1,200}\r\n){0,4}\r\n'
    rb"([^\r\n]{1,1000})\r\n"
)
_MAX_KEY_CANDIDATES = 16

_DEEPL_PATHS = ("/v2/", "/v3/")


class Bodies:
    """Limits how many bytes of bodies are held until their requests are answered.

    Args:
      access: checks keys.
      config: has the limits.
    """

    def __init__(self, access: Access, config: ServerConfig):
        self.access, self.config = access, config
        self._held_bytes: collections.Counter[str] = collections.Counter()

    def hold(self, address: str, size: int) -> None:
        """Counts bytes from an address; raises `ApiError` above its limit or the total limit."""
        self._held_bytes[address] += size
        if self._held_bytes[address] > _MAX_HELD_BYTES_PER_ADDRESS:
            raise ApiError(429, "Too many requests: too much is being sent at once", 5)
        if self._held_bytes.total() > _MAX_HELD_BYTES:
            raise ApiError(503, "The server is receiving too much at once", 5)

    def release(self, address: str, size: int) -> None:
        """Releases bytes that `hold` counted, once a request is answered."""
        self._held_bytes[address] -= size
        if self._held_bytes[address] <= 0:
            del self._held_bytes[address]


class Body:
    """The body of a request, as ASGI's `receive`.

    Raises:
      ApiError: when called, if the body is too large, or a required key is missing or invalid.
    """

    def __init__(self, bodies: Bodies, scope: Scope, receive: Receive):
        self._bodies, self._scope, self._receive = bodies, scope, receive
        self._headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        self._address = network_of(scope["client"][0]) if scope.get("client") else ""
        self._limit = self._bytes_left = _max_bytes(scope["path"], bodies.config)
        length = self._headers.get(b"content-length", "0")
        if length.isdigit() and (len(length) > 18 or int(length) > self._limit):
            self._bytes_left = -1
        self._held_bytes = 0
        self._is_key_checked = not bodies.access.needs_key
        self._to_replay: collections.deque[Message] = collections.deque()

    def close(self) -> None:
        """Releases the bytes of the body."""
        self._bodies.release(self._address, self._held_bytes)
        self._held_bytes = 0

    async def __call__(self) -> Message:
        """Returns the next message of ASGI."""
        if self._bytes_left < 0:
            raise _size_error(self._limit)
        if not self._is_key_checked:
            await self._check_key()
        return self._to_replay.popleft() if self._to_replay else await self._next()

    async def _next(self) -> Message:
        message = await self._receive()
        size = len(message.get("body", b""))
        self._bytes_left -= size
        if self._bytes_left < 0:
            raise _size_error(self._limit)
        if size:
            self._held_bytes += size
            self._bodies.hold(self._address, size)
        return message

    async def _check_key(self) -> None:
        """Reads until a key is found; raises `ApiError` if the request has no valid key."""
        access = self._bodies.access
        query = self._scope.get("query_string", b"")
        key = authorization_key(self._headers.get(b"authorization", ""))
        keys = [key] if key else [*_find_keys(_FORM_KEY, query)]
        if not keys:
            body = await self._first_bytes()
            if not body:
                # Without a body, the route checks the key itself.
                self._is_key_checked = True
                return
            kind = content_kind(self._headers.get(b"content-type", ""))
            keys = list(_find_keys(_key_pattern(kind), body))
        if not any(map(access.recognizes, keys)):
            self._to_replay.clear()
            # Counts the request, and raises the error.
            access.admit(next(iter(keys), ""), self._address)
        self._is_key_checked = True

    async def _first_bytes(self) -> bytes:
        """Returns the body, or the start of a file upload, for the key search; replays it later."""
        limit = _MAX_BYTES_BEFORE_KEY if self._scope["path"] in _FILE_ROUTES else self._limit
        body, has_more = bytearray(), True
        while has_more and len(body) < limit:
            message = await self._next()
            if message["type"] != "http.request":
                self._to_replay.append(message)
                return bytes(body)
            body += message.get("body", b"")
            has_more = message.get("more_body", False)
        content = bytes(body)
        self._to_replay.append({"type": "http.request", "body": content, "more_body": has_more})
        return content


def _key_pattern(kind: str) -> re.Pattern[bytes]:
    if kind == "multipart/form-data":
        return _MULTIPART_KEY
    return _FORM_KEY if kind == "application/x-www-form-urlencoded" else _JSON_KEY


def _find_keys(pattern: re.Pattern[bytes], body: bytes) -> Iterator[str]:
    """Yields possible keys in an unparsed body."""
    for match in itertools.islice(pattern.finditer(body), _MAX_KEY_CANDIDATES):
        if pattern is _FORM_KEY:
            yield unquote_plus(decode_form(match[1]))
        elif pattern is _MULTIPART_KEY:
            yield match[1].decode("utf-8", "replace")
        else:
            try:
                yield json.loads(match[1])
            except ValueError:
                continue


def _max_bytes(path: str, config: ServerConfig) -> int:
    if path in _FILE_ROUTES:
        return config.max_file_bytes + MEBIBYTE
    if "/glossaries" in path:
        return 11 * MEBIBYTE
    # A character has at most 12 bytes: two escapes in JSON, or four in a form.
    return 12 * config.max_characters + MEBIBYTE


def _size_error(limit: int) -> ApiError:
    return ApiError(413, f"Request entity too large: expected at most {limit:,} bytes")


def error_response(
    request: Request, status: int, message: str, retry_after: int = 0, detail: str = ""
) -> Response:
    """Returns an error in the format of the requested API."""
    headers = {"Retry-After": str(retry_after)} if retry_after else None
    if request.url.path.startswith(_DEEPL_PATHS):
        content = {"message": message} | ({"detail": detail} if detail else {})
        return JSONResponse(content, status, headers)
    if status == 429:
        message = f"Slowdown: {message}"
    return JSONResponse({"error": message}, status, headers)


def route_of(scope: Scope) -> str:
    """Returns the route of a request; unlike its URL, it reveals no content."""
    return getattr(scope.get("route"), "path", "none")


class Gate:
    """Measures, logs and limits every request.

    Log lines have the route, not the URL, which may contain file names and text.
    """

    def __init__(self, app: ASGIApp, bodies: Bodies, metrics: Metrics):
        self._app, self._bodies, self._metrics = app, bodies, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, has_started, status = time.perf_counter(), False, 500

        async def send_observed(message: Message) -> None:
            nonlocal has_started, status
            if message["type"] == "http.response.start":
                has_started, status = True, message["status"]
                message["headers"] = [
                    *message["headers"],
                    (b"content-security-policy", page.SECURITY_POLICY.encode()),
                    (b"x-content-type-options", b"nosniff"),
                    (b"referrer-policy", b"no-referrer"),
                    *[(b"connection", b"close")] * scope["app"].state.stopping,
                ]
            await send(message)

        self._metrics.in_flight.inc()
        body = Body(self._bodies, scope, receive)
        try:
            if scope.get("query_string", b"").count(b"&") >= MAX_FIELDS:
                message = f"Invalid request: expected at most {MAX_FIELDS:,} parameters"
                await error_response(Request(scope), 414, message)(scope, receive, send_observed)
            else:
                await self._app(scope, body, send_observed)
        except Exception as error:
            # uvicorn would log the message, which may contain a client's text.
            _LOG.error("%s\n%s", route_of(scope), describe_stacks(error))
            if not has_started:
                response = error_response(Request(scope), 500, "Internal server error")
                await response(scope, receive, send_observed)
        finally:
            body.close()
            self._metrics.in_flight.dec()
            if form := scope.get("state", {}).get("form"):
                await form.close()
            seconds = time.perf_counter() - start
            route = route_of(scope)
            self._metrics.requests.labels(scope["method"], route, status).inc()
            self._metrics.seconds.labels(route).observe(seconds)
            client = scope.get("state", {}).get("client", "")
            _LOG.info("%s %s %d %.0f ms %s", scope["method"], route, status, 1000 * seconds, client)


_LOG = logging.getLogger("t2t_keras.server")

_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def make_app(sources: Sequence[ModelSource], config: ServerConfig | None = None) -> Starlette:
    """Loads models and returns the application that serves them.

    Args:
      sources: locations of models, at least one.
      config: settings of the server.

    Raises:
      UserError: a model cannot be loaded, or a setting is invalid.
    """
    config = config or ServerConfig()
    metrics = Metrics()
    keys = ApiKeys(config.api_keys_file) if config.api_keys_file else None
    usage_file = config.storage / "usage.json" if config.storage else None
    access = Access(keys, config.requests_per_minute, usage_file)
    service = TranslationService(sources, config, metrics)
    context = Context(service, config, access, metrics)

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        context.files.begin()
        yield
        deadline = app.state.stop_by or time.monotonic() + config.stop_seconds
        await context.files.close(deadline)
        access.save()  # Save first: the process may end while it waits for threads.
        await service.close(max(deadline - time.monotonic(), 0.0))

    middleware = [Middleware(Gate, bodies=Bodies(access, config), metrics=metrics)]
    if config.cors:
        cors = Middleware(
            CORSMiddleware,
            allow_origins=config.cors,
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type"],
        )
        middleware.insert(0, cors)
    handlers: Mapping[Any, Any] = dict.fromkeys(_HANDLED_ERRORS, _refuse)
    app = Starlette(
        routes=_ROUTES, middleware=middleware, exception_handlers=handlers, lifespan=lifespan
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
    *page_api.ROUTES,
    *page.ROUTES,
)


def _as_api_error(error: Exception) -> ApiError:
    if isinstance(error, ApiError):
        return error
    if isinstance(error, HTTPException):
        return ApiError(error.status_code, str(error.detail))
    if isinstance(error, ClientDisconnect):
        return ApiError(499, "The client has closed the connection.")
    if isinstance(error, QueueFullError):
        return ApiError(429, "Too many requests: too many lines are waiting", 1)
    if isinstance(error, JobEndedError):
        return ApiError(503, str(error), 5 * (error.code == "server_stops"))
    return ApiError(500, "The text cannot be translated.")


async def _refuse(request: Request, error: Exception) -> Response:
    refusal = _as_api_error(error)
    if refusal.status == 500:
        _LOG.error("%s\n%s", route_of(request.scope), describe_stacks(error))
    response = error_response(
        request, refusal.status, refusal.message, refusal.retry_after, refusal.detail
    )
    response.headers.update(getattr(error, "headers", None) or {})  # Such as Allow.
    return response


_HANDLED_ERRORS = (ApiError, HTTPException, ClientDisconnect, QueueFullError, UserError)
