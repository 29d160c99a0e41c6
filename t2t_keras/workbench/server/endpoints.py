"""Routes of the APIs, and the requests that they answer."""

import asyncio
import contextlib
import dataclasses
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from t2t_keras.errors import UserError
from t2t_keras.workbench.server.access import ANYONE, Client, network_of
from t2t_keras.workbench.server.context import Context
from t2t_keras.workbench.server.messages import ApiError, Parameters, read_parameters, unless_gone
from t2t_keras.workbench.server.service import Options, Pair, Splitting, Translated
from t2t_keras.workbench.server.work.shares import Budget, JobEndedError, in_own_thread

Result = TypeVar("Result")


@dataclasses.dataclass(frozen=True)
class Call:
    """A request that the server has let in.

    Attributes:
      context: the server's parts.
      request: as it came.
      parameters: of the request.
      client: who sends it.
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
    ) -> list[Translated]:
        """Translates texts, each for its pair of languages.

        Arguments as of `TranslationService.translate`. Of a language twice, as `Context.pair` may
        return, a translation is the text.

        Raises:
          ApiError: it is too much, markup is malformed, or the client has gone.
        """
        context = self.context
        context.check_size(texts)
        numbers: dict[Pair, list[int]] = {}
        for number, pair in enumerate(pairs):
            if pair[0] != pair[1]:
                numbers.setdefault(pair, []).append(number)
        translations = [Translated(text, []) for text in texts]

        async def translate() -> None:
            for pair, group in numbers.items():
                some = [texts[number] for number in group]
                translated = await context.service.translate(pair, some, options, splitting, budget)
                for number, translation in zip(group, translated, strict=True):
                    translations[number] = translation

        charged = [texts[number] for group in numbers.values() for number in group]
        budget = self.budget(charged)
        with self.charged(charged, budget):
            try:
                await unless_gone(self.request, translate(), budget)
            except UserError as error:
                if options.format == "text" or isinstance(error, JobEndedError):
                    raise  # It is not the text's fault.
                raise ApiError(400, f"Invalid request: {error}") from error
        context.log_texts(texts, [translation.text for translation in translations])
        return translations

    def budget(self, texts: Sequence[str]) -> Budget:
        """Returns the budget of the request for texts."""
        return self.context.service.budget(self.sharer, sum(map(len, texts)))

    async def beside(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """Returns a function's result, from one of few threads for slow work."""
        async with self.context.places.place(self.sharer):
            return await in_own_thread(function, *arguments)

    @property
    def sharer(self) -> str:
        """Whose share of the machine the request uses: that of a key or of an address."""
        if self.context.access.needs_key:
            return self.client.identity
        return network_of(self.request.client.host) if self.request.client else ""

    @contextlib.contextmanager
    def charged(self, texts: Sequence[str], budget: Budget) -> Iterator[int]:
        """Counts the characters of texts for the client.

        They stay counted once work on them has begun, unless the server fails.

        Yields their number. Raises `ApiError` if they exceed the client's quota.
        """
        characters, access = sum(map(len, texts)), self.context.access
        access.charge(self.client, characters)
        try:
            yield characters
        except BaseException as error:
            code = getattr(error, "code", "")
            is_clients = isinstance(error, ApiError | JobEndedError | asyncio.CancelledError)
            if not is_clients or code == "server_stops" or not budget.seconds:
                access.refund(self.client.identity, characters)
            raise


class Endpoint(Route):
    """A route for clients that are let in.

    Args:
      path: of the route, see Starlette's `Route`.
      handler: takes a `Call`; returns a response, or the content of one in JSON; None = an empty
        one.
      methods: of HTTP.
      status: of a response that the handler does not make itself.
      is_open: whether it is for anyone, and ignores what comes as parameters.
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
