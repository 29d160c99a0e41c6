"""The parameters and budget of a request, and the errors that refuse it."""

import asyncio
import concurrent.futures
import contextlib
import json
import threading
import time
import traceback
import urllib.parse
import weakref
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from typing import Any, TypeVar

from python_multipart.multipart import parse_options_header
from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from t2t_keras.errors import UserError
from t2t_keras.text.files import is_text
from t2t_keras.workbench.server.config import MEBIBYTE

_KEY_SCHEMES = ("deepl-auth-key", "bearer")
MAX_FIELDS = 2_000
_MAX_FIELD = 16 * MEBIBYTE  # bytes; `app.Body` limits the size of the whole body
# Lists and objects in a JSON body; more would take long to build.
_MAX_CONTAINERS = 100_000
_SHORT_BODY = 65_536  # bytes
_SECONDS_BETWEEN_CHECKS = 0.5
# Other charsets can be slow: punycode takes quadratic time.
_CHARSETS = ("", "utf-8", "utf8", "us-ascii", "ascii", "iso-8859-1", "latin-1")


class ApiError(Exception):
    """The refusal of a request.

    Attributes:
      status: HTTP status.
      message: what was received, and what was expected.
      retry_after: seconds to wait before a retry; 0 = a retry does not help.
      detail: further explanation.
    """

    def __init__(self, status: int, message: str, retry_after: int = 0, detail: str = ""):
        super().__init__(message)
        self.status, self.message = status, message
        self.retry_after, self.detail = retry_after, detail


def describe_stacks(error: BaseException) -> str:
    """Returns types and stacks of an error and its causes; no messages, as they may quote text."""
    parts: list[str] = []
    cause: BaseException | None = error
    while cause:
        stack = "".join(traceback.format_tb(cause.__traceback__))
        parts.insert(0, f"{stack}{type(cause).__qualname__}")
        cause = cause.__cause__ or cause.__context__
    return "\n".join(parts)


class Parameters:
    """The parameters of a request, from its query and its body (JSON or a form)."""

    def __init__(self, values: Mapping[str, Any]):
        self._values = dict(values)

    def raw_value(self, name: str) -> Any:
        """Returns an unchecked value; None = missing."""
        return self._values.get(name)

    def text(self, name: str, default: str = "") -> str:
        """Returns a string, the first if there are several. Converts numbers and booleans.

        Raises:
          ApiError: the value is not a string.
        """
        value = self._values.get(name)
        if isinstance(value, list) and value:
            value = value[0]
        if value is None:
            return default
        if isinstance(value, bool | int | float):
            value = json.dumps(value)
        return _checked_text(name, value)

    def texts(self, name: str) -> list[str]:
        """Returns a list of strings; a single string becomes a list of one."""
        value = self._values.get(name)
        values = value if isinstance(value, list) else [] if value is None else [value]
        return [_checked_text(name, text) for text in values]

    def switch(self, name: str, default: bool = False) -> bool:
        """Returns whether a parameter is on: true, "true", 1 or "1"."""
        text = self.text(name).lower()
        if text not in ("", "0", "1", "true", "false"):
            raise ApiError(400, f"Value for '{name}' not supported.")
        return text in ("1", "true") if text else default

    def choice(self, name: str, allowed: Sequence[str], default: str = "") -> str:
        """Returns a parameter that must have one of the allowed values.

        Raises:
          ApiError: it has another value.
        """
        text = self.text(name)
        if text and text not in allowed:
            raise ApiError(400, f"Value for '{name}' not supported.")
        return text or default

    def file(self, name: str) -> UploadFile | None:
        """Returns an uploaded file; None = missing."""
        value = self._values.get(name)
        return value if isinstance(value, UploadFile) else None


def authorization_key(authorization: str) -> str:
    """Returns the key in an Authorization header; "" = none."""
    scheme, _, key = authorization.strip().partition(" ")
    return key.strip() if scheme.lower() in _KEY_SCHEMES else ""


def content_kind(content_type: str) -> str:
    """Returns the media type of a body without its parameters, such as application/json."""
    return content_type.partition(";")[0].strip().lower()


def _checked_text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ApiError(400, f"Invalid request: {name} is not text")
    if not is_text(value):
        raise ApiError(400, f"Invalid request: {name} is not valid Unicode")
    return value


async def read_parameters(request: Request) -> Parameters:
    """Reads the parameters from the query and the body of a request, whatever its method.

    Raises:
      ApiError: the body is neither JSON nor a form.
    """
    values = _group_values(request.query_params.multi_items())
    content_type = request.headers.get("content-type", "")
    kind = content_kind(content_type)
    if kind == "multipart/form-data":
        _check_charset(content_type)
        try:
            form = await request.form(max_files=1, max_fields=MAX_FIELDS, max_part_size=_MAX_FIELD)
        except ValueError as error:
            raise _unreadable_form_error() from error
        request.state.form = form  # The gate closes its files.
        values |= _group_values(form.multi_items())
    elif body := await request.body():
        if kind == "application/x-www-form-urlencoded":
            values |= _group_values(await asyncio.to_thread(_read_form, body))
        else:
            # For a short body, a thread would take longer.
            is_short = len(body) < _SHORT_BODY
            values |= (
                _parse_object(body) if is_short else await asyncio.to_thread(_parse_object, body)
            )
    return Parameters(values)


def _check_charset(content_type: str) -> None:
    # Use the form parser's function, so that both see the same charset.
    _, options = parse_options_header(content_type)
    charset = options.get(b"charset", b"").decode("latin-1").strip().lower()
    if charset not in _CHARSETS:
        raise ApiError(400, "Invalid request: expected a form in UTF-8 or Latin-1")


def _unreadable_form_error() -> ApiError:
    return ApiError(400, "Invalid request: the form cannot be read")


def decode_form(body: bytes) -> str:
    """Decodes a form as UTF-8 or, failing that, as Latin-1."""
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        return body.decode("latin-1")


def _read_form(body: bytes) -> list[tuple[str, str]]:
    try:
        return urllib.parse.parse_qsl(
            decode_form(body), keep_blank_values=True, max_num_fields=MAX_FIELDS
        )
    except ValueError as error:
        raise _unreadable_form_error() from error


def _group_values(items: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, list[Any]] = {}
    for name, value in items:
        # PHP and some clients add [] to the names of lists.
        values.setdefault(name.removesuffix("[]"), []).append(value)
    return {name: value if value[1:] else value[0] for name, value in values.items()}


def _parse_object(body: bytes) -> dict[str, Any]:
    if body.count(b"[") + body.count(b"{") > _MAX_CONTAINERS:
        raise ApiError(413, f"Invalid request: expected at most {_MAX_CONTAINERS:,} lists")
    try:
        content = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ApiError(400, "Invalid request: expected a JSON object or a form") from error
    if not isinstance(content, dict):
        raise ApiError(400, "Invalid JSON format")
    return content


async def json_response(content: Any) -> Response:
    """Returns a response with JSON, serialised in a thread."""
    return await asyncio.to_thread(JSONResponse, content)


Result = TypeVar("Result")
# Maximum searches of a job: a base, plus some per character. A sentence has at least one character,
# and may need several searches, for its placeholders or terms.
_BASE_SEARCHES, _SEARCHES_PER_CHARACTER = 256, 2


class Places:
    """Limits concurrent work, in total and for each client.

    Args:
      total: number of places.
      per_client: number of places for each client.
    """

    def __init__(self, total: int, per_client: int):
        self._total, self._per_client = asyncio.Semaphore(total), per_client
        # A client is forgotten once it neither has nor awaits a place.
        self._clients: weakref.WeakValueDictionary[str, asyncio.Semaphore]
        self._clients = weakref.WeakValueDictionary()

    @contextlib.asynccontextmanager
    async def place(self, client: str) -> AsyncIterator[None]:
        """Waits for a place, and holds it."""
        client_places = self._clients.setdefault(client, asyncio.Semaphore(self._per_client))
        async with client_places, self._total:
            yield


async def in_own_thread(function: Callable[..., Result], *arguments: Any) -> Result:
    """Runs a function in a thread that ends with the process, and returns its result.

    `asyncio.to_thread` has few threads, and the process waits for them when it ends.
    """
    future: concurrent.futures.Future[Result] = concurrent.futures.Future()

    def run() -> None:
        try:
            result = function(*arguments)
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(result)

    # The thread must end normally even if the caller is cancelled.
    future.set_running_or_notify_cancel()
    threading.Thread(target=run, name="work", daemon=True).start()
    return await asyncio.wrap_future(future)


class JobEndedError(UserError):
    """A job was stopped: its client left, its budget is used up, or the server is stopping.

    Attributes:
      code: "client_gone", "job_too_long" or "server_stops".
    """


class Budget:
    """Limits the seconds and searches of a request or a file.

    Counts the seconds for which its lines are translated; in a shared batch, only the request's
    share of the seconds. Waiting is free.

    Args:
      client: key or address whose share of the machine the work uses.
      seconds: maximum seconds of work.
      characters: number of characters, which determines the maximum number of searches.
      clock: returns monotonic seconds.
    """

    def __init__(
        self,
        client: str = "",
        seconds: float = 60.0,
        characters: int = 1_000_000,
        clock: Callable[[], float] = time.monotonic,
    ):
        self.client, self._max_seconds, self._clock = client, seconds, clock
        self._searches_left: float = _BASE_SEARCHES + characters * _SEARCHES_PER_CHARACTER
        self._lock = threading.Lock()
        self._seconds_used, self._counted_at, self._share, self._num_running = 0.0, 0.0, 1.0, 0
        self._end_error: JobEndedError | None = None

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """Counts the seconds of the block."""
        self.begin(1.0)
        try:
            yield
        finally:
            self.pause()

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Pauses the count of `working` during the block."""
        self.pause()
        try:
            yield
        finally:
            self.begin(1.0)

    def begin(self, share: float) -> None:
        """Counts seconds from now on, multiplied by this share."""
        with self._lock:
            self._count_seconds()
            self._num_running += 1
            self._share = share

    def pause(self) -> None:
        """Stops counting seconds."""
        with self._lock:
            self._count_seconds()
            self._num_running -= 1

    def _count_seconds(self) -> None:
        now = self._clock()
        if self._num_running:
            self._seconds_used += (now - self._counted_at) * self._share
        self._counted_at = now

    @property
    def seconds(self) -> float:
        """The seconds that the job has used."""
        with self._lock:
            self._count_seconds()
            return self._seconds_used

    def count_searches(self, searches: float) -> None:
        """Charges searches to the budget."""
        with self._lock:
            self._searches_left -= searches

    def end(self, code: str, text: str) -> None:
        """Ends the job before it begins or, if it is running, at its next search."""
        with self._lock:
            self._end_error = self._end_error or JobEndedError(text, code=code)

    @property
    def end_error(self) -> JobEndedError | None:
        """Why the job has ended, such as a used-up budget; None = it has not ended."""
        if self.seconds > self._max_seconds or self._searches_left < 0:
            self.end(
                "job_too_long",
                f"The request takes too long: expected at most {self._max_seconds:g} seconds of "
                f"work, and a limited number of searches. Send less text at once, or fewer terms.",
            )
        return self._end_error

    def check(self) -> None:
        """Raises `JobEndedError` if the job has ended or its budget is used up."""
        if error := self.end_error:
            raise error


async def run_while_connected(request: Request, work: Awaitable[Result], budget: Budget) -> Result:
    """Awaits work for a client; stops it if the client disconnects or the budget is used up.

    Raises:
      ApiError: the client has disconnected.
      JobEndedError: the budget is used up, or the server is stopping.
    """
    task = asyncio.ensure_future(work)
    disconnected = asyncio.ensure_future(_wait_for_disconnect(request))
    try:
        while not task.done():
            await asyncio.wait(
                (task, disconnected),
                timeout=_SECONDS_BETWEEN_CHECKS,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if disconnected.done() and not task.done():
                budget.end("client_gone", "The client has closed the connection.")
                raise ApiError(499, "The client has closed the connection.")
            if not task.done():
                budget.check()
        return task.result()
    finally:
        task.cancel()
        disconnected.cancel()


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
