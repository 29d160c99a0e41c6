"""Access, limits, languages and charged translation, for the routes of all APIs."""

import asyncio
import contextlib
import dataclasses
import logging
import re
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from t2t_keras.errors import UserError
from t2t_keras.text.formats import main_language
from t2t_keras.workbench.server.access import ANYONE, Access, Client, network_of
from t2t_keras.workbench.server.config import ServerConfig
from t2t_keras.workbench.server.files import TranslatedFiles
from t2t_keras.workbench.server.glossaries import Glossaries
from t2t_keras.workbench.server.languages import (
    DetectedLanguage,
    canonical_code,
    detect,
    language_name,
    nearest_code,
    nearest_pair,
)
from t2t_keras.workbench.server.requests import (
    ApiError,
    Budget,
    JobEndedError,
    Parameters,
    Places,
    authorization_key,
    in_own_thread,
    read_parameters,
    run_while_connected,
)
from t2t_keras.workbench.server.service import (
    Metrics,
    Options,
    Pair,
    Splitting,
    TranslatedText,
    TranslationService,
)

LOG = logging.getLogger("t2t_keras.server")

# Hosts that no other site can own: IP addresses, names without dots, subdomains of localhost.
_LOCAL_HOST = re.compile(r"(\[[\da-f:.]+\]|[\d.]+|[^.:]*|[^:]*\.localhost)(:\d+)?", re.IGNORECASE)
_MAX_SLOW_CALLS = 4
_LOOPBACK_PREFIXES = ("127.", "::1", "::ffff:127.")
_FORWARDING_HEADERS = ("x-forwarded-for", "x-real-ip", "forwarded")
# A detected language this probable is used even if no model translates it to the target.
_MIN_CONFIDENCE = 0.9


class Context:
    """The server's components, for its routes.

    Attributes:
      service: translates.
      config: the settings.
      access: admits clients.
      metrics: counts requests and texts.
      glossaries: glossaries of clients.
      files: uploaded files of clients.
      places: limits slow work other than translation.
    """

    def __init__(
        self, service: TranslationService, config: ServerConfig, access: Access, metrics: Metrics
    ):
        self.service, self.config = service, config
        self.access, self.metrics = access, metrics
        folder = config.storage
        self.glossaries = Glossaries(folder / "glossaries" if folder else None)
        self.places = Places(_MAX_SLOW_CALLS, 1)
        self.files = TranslatedFiles(service, config, access.refund)

    def admit(self, request: Request, parameters: Parameters) -> Client:
        """Returns the sender of a request, by its Authorization header or api_key parameter.

        Raises:
          ApiError: the key is invalid, or there are too many requests.
        """
        self._check_site(request)
        key = authorization_key(request.headers.get("authorization", ""))
        for name in ("api_key", "auth_key"):
            if not key:
                key = parameters.text(name)
        address = request.client.host if request.client else ""
        client = self.access.admit(key, address)
        request.state.client = client.name
        return client

    def admit_to_metrics(self, request: Request, parameters: Parameters) -> None:
        """Raises `ApiError` unless a request has a valid key or comes from this machine."""
        self._check_site(request)
        address = request.client.host if request.client else ""
        is_forwarded = any(name in request.headers for name in _FORWARDING_HEADERS)
        if not address.startswith(_LOOPBACK_PREFIXES) or is_forwarded:
            if not self.access.needs_key:
                raise ApiError(403, "Without --api_keys_file, metrics are for this machine only.")
            self.admit(request, parameters)

    def _check_site(self, request: Request) -> None:
        """Raises `ApiError` for requests from pages of other sites."""
        headers, address = request.headers, request.client.host if request.client else ""
        host, origin, sites = headers.get("host", ""), headers.get("origin"), self.config.cors
        if "*" in sites:
            return
        # A proxy may change the host, but only a browser sets Sec-Fetch-Site.
        is_own = headers.get("sec-fetch-site") in ("same-origin", "none")
        if origin and origin not in sites and not is_own and origin.partition("://")[2] != host:
            raise ApiError(403, f"Origin {origin} not allowed; add it to --cors.")
        hosts = [site.partition("://")[2] for site in sites]
        is_known_host = _LOCAL_HOST.fullmatch(host) or host in hosts
        if address.startswith(_LOOPBACK_PREFIXES) and not is_known_host:
            raise ApiError(
                403,
                f"Host {host} not allowed; add a proxy's address to --trusted_proxies, or another "
                f"name of this server to --cors.",
            )

    def languages(self) -> list[str]:
        """Returns the codes of all sources and targets."""
        return sorted({code for pair in self.service.models for code in pair})

    def targets(self, source: str) -> list[str]:
        """Returns the target languages of a source language."""
        return sorted(target for code, target in self.service.models if code == source)

    def pair(self, source: str, target: str, may_be_same: bool = False) -> Pair:
        """Returns the served language pair that matches the languages of a request.

        With `may_be_same`, if both are the same language, returns that language twice.

        Raises:
          ApiError: no model translates between them.
        """
        known = self.languages()
        for code in (source, target):
            if not nearest_code(code, known):
                raise ApiError(400, f"{code} is not supported")
        if pair := nearest_pair(source, target, self.service.models):
            return pair
        if may_be_same and (
            target in (source, main_language(source)) or target.startswith(f"{source}-")
        ):
            return source, source
        raise ApiError(
            400,
            f"{language_name(target)} ({target}) is not available as a target language from "
            f"{language_name(source)} ({source})",
        )

    async def detect(
        self, texts: Sequence[str], text_format: str = "text"
    ) -> list[DetectedLanguage]:
        """Returns the possible languages of texts, from the source languages of the models."""
        sources = {source for source, _ in self.service.models}
        try:
            return await asyncio.to_thread(detect, texts, sources, text_format)
        except UserError as error:
            raise ApiError(501, str(error)) from error

    async def detect_source(
        self, texts: Sequence[str], target: str, text_format: str = "text"
    ) -> DetectedLanguage:
        """Returns the most likely language of texts that are translated to a target.

        Below `_MIN_CONFIDENCE`, prefers languages that a model translates to the target. Texts
        without letters get such a language, or the target's, with confidence 0.
        """
        candidates = await self.detect(texts, text_format)
        best, served, target = candidates[0], self.service.models, canonical_code(target)
        if not best.confidence and main_language(best.language) != main_language(target):
            candidates = [best, *(DetectedLanguage(source, 0.0) for source, _ in sorted(served))]
        elif not 0 < best.confidence < _MIN_CONFIDENCE:
            return best
        served_candidates = (
            candidate
            for candidate in candidates
            if nearest_pair(candidate.language, target, served)
        )
        return next(served_candidates, best)

    def check_size(self, texts: Sequence[str]) -> None:
        """Raises `ApiError` if a request has too much text."""
        config = self.config
        for size, limit, unit in (
            (len(texts), config.max_texts, "texts"),
            (sum(map(len, texts)), config.max_characters, "characters"),
        ):
            if size > limit:
                raise ApiError(
                    413,
                    f"Invalid request: request ({size:,} {unit}) exceeds text limit ({limit:,})",
                )

    def log_texts(self, sources: Sequence[str], targets: Sequence[str]) -> None:
        """Logs texts and translations if `log_text` is set."""
        if self.config.log_text:
            for source, target in zip(sources, targets, strict=True):
                LOG.info("%r -> %r", source, target)


Result = TypeVar("Result")


@dataclasses.dataclass(frozen=True)
class Call:
    """An admitted request.

    Attributes:
      context: the server's components.
      request: the request.
      parameters: its parameters.
      client: its sender.
    """

    context: Context
    request: Request
    parameters: Parameters
    client: Client

    async def translate(
        self,
        pairs: Sequence[Pair],
        texts: Sequence[str],
        options: Options,
        splitting: Splitting = Splitting(),  # noqa: B008 (frozen)
    ) -> list[TranslatedText]:
        """Translates texts, each from and to the languages of its pair.

        See `TranslationService.translate` for the arguments. Texts whose pair has the same language
        twice are returned unchanged.

        Raises:
          ApiError: there is too much text, markup is malformed, or the client has disconnected.
        """
        context = self.context
        context.check_size(texts)
        numbers_by_pair: dict[Pair, list[int]] = {}
        for number, pair in enumerate(pairs):
            if pair[0] != pair[1]:
                numbers_by_pair.setdefault(pair, []).append(number)
        translations = [TranslatedText(text, []) for text in texts]

        async def translate() -> None:
            for pair, numbers in numbers_by_pair.items():
                texts_of_pair = [texts[number] for number in numbers]
                translated = await context.service.translate(
                    pair, texts_of_pair, options, splitting, budget
                )
                for number, translation in zip(numbers, translated, strict=True):
                    translations[number] = translation

        charged_texts = [texts[number] for group in numbers_by_pair.values() for number in group]
        budget = self.budget(charged_texts)
        with self.charged(charged_texts, budget):
            try:
                await run_while_connected(self.request, translate(), budget)
            except UserError as error:
                if options.format == "text" or isinstance(error, JobEndedError):
                    raise  # The text did not cause it.
                raise ApiError(400, f"Invalid request: {error}") from error
        context.log_texts(texts, [translation.text for translation in translations])
        return translations

    def budget(self, texts: Sequence[str]) -> Budget:
        """Returns the request's budget for texts."""
        return self.context.service.budget(self.share_owner, sum(map(len, texts)))

    async def in_thread(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """Runs a slow function in a thread; only a few run at once."""
        async with self.context.places.place(self.share_owner):
            return await in_own_thread(function, *arguments)

    @property
    def share_owner(self) -> str:
        """The key or address whose share of the machine the request uses."""
        if self.context.access.needs_key:
            return self.client.identity
        return network_of(self.request.client.host) if self.request.client else ""

    @contextlib.contextmanager
    def charged(self, texts: Sequence[str], budget: Budget) -> Iterator[int]:
        """Counts the characters of texts for the client.

        Refunds them if the server fails or work on them has not begun.

        Yields:
          The number of characters.

        Raises:
          ApiError: the characters exceed the client's quota.
        """
        characters, access = sum(map(len, texts)), self.context.access
        access.charge(self.client, characters)
        try:
            yield characters
        except BaseException as error:
            code = getattr(error, "code", "")
            caused_by_client = isinstance(error, ApiError | JobEndedError | asyncio.CancelledError)
            if not caused_by_client or code == "server_stops" or not budget.seconds:
                access.refund(self.client.identity, characters)
            raise


class Endpoint(Route):
    """A route for admitted clients.

    Args:
      path: path of the route, see Starlette's `Route`.
      handler: takes a `Call`; returns a response, JSON content, or None for an empty response.
      methods: HTTP methods.
      status: status of responses that the handler does not construct itself.
      is_open: whether the route needs no key; such a route ignores all parameters.
    """

    def __init__(
        self,
        path: str,
        handler: Callable[[Call], Awaitable[Any]],
        methods: Collection[str] = ("POST",),
        status: int = 200,
        is_open: bool = False,
    ):
        super().__init__(path, self._answer, methods=methods, name=handler.__name__)
        # Starlette adds HEAD, but a document can be fetched only once.
        self.methods = set(methods)
        self._handler, self._status, self._is_open = handler, status, is_open

    async def _answer(self, request: Request) -> Response:
        context: Context = request.app.state.context
        parameters, client = Parameters({}), ANYONE
        if not self._is_open:
            parameters = await read_parameters(request)
            client = context.admit(request, parameters)
        content = await self._handler(Call(context, request, parameters, client))
        if isinstance(content, Response):
            return content
        if content is None:
            return Response(status_code=self._status)
        return JSONResponse(content, self._status)
