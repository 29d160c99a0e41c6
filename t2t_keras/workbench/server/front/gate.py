"""The outermost layer of every request: limits, metrics, log, errors."""

import logging
import time

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from t2t_keras.workbench.server.front.bodies import Bodies, Body
from t2t_keras.workbench.server.messages import MOST_FIELDS, where
from t2t_keras.workbench.server.metrics import Metrics

_LOG = logging.getLogger("t2t_keras.server")

_DEEPL = ("/v2/", "/v3/")


def error_response(
    request: Request, status: int, message: str, retry_after: int = 0, detail: str = ""
) -> Response:
    """Returns an error in the form of the API that the request is for."""
    headers = {"Retry-After": str(retry_after)} if retry_after else None
    if request.url.path.startswith(_DEEPL):
        content = {"message": message} | ({"detail": detail} if detail else {})
        return JSONResponse(content, status, headers)
    if status == 429:
        message = f"Slowdown: {message}"
    return JSONResponse({"error": message}, status, headers)


def route_of(scope: Scope) -> str:
    """Returns the route of a request, which unlike its address reveals no content."""
    return getattr(scope.get("route"), "path", "none")


class Gate:
    """Measures, logs and limits every request.

    A log line has the route, not the address: addresses may contain file names and text.
    """

    def __init__(self, app: ASGIApp, bodies: Bodies, metrics: Metrics):
        self._app, self._bodies, self._metrics = app, bodies, metrics

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
        body = Body(self._bodies, scope, receive)
        try:
            if scope.get("query_string", b"").count(b"&") >= MOST_FIELDS:
                message = f"Invalid request: expected at most {MOST_FIELDS:,} parameters"
                await error_response(Request(scope), 414, message)(scope, receive, observed)
            else:
                await self._app(scope, body, observed)
        except Exception as error:
            # uvicorn would log its message, which may contain text.
            _LOG.error("%s\n%s", route_of(scope), where(error))
            if not begun:
                failed = error_response(Request(scope), 500, "Internal server error")
                await failed(scope, receive, observed)
        finally:
            body.close()
            self._metrics.in_flight.dec()
            if form := scope.get("state", {}).get("form"):
                await form.close()
            seconds = time.perf_counter() - began
            route = route_of(scope)
            self._metrics.requests.labels(scope["method"], route, status).inc()
            self._metrics.seconds.labels(route).observe(seconds)
            client = scope.get("state", {}).get("client", "")
            _LOG.info("%s %s %d %.0f ms %s", scope["method"], route, status, 1000 * seconds, client)
