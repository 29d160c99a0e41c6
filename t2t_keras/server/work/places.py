"""Places for slow work beside the event loop, and threads that no end has to wait for."""

import asyncio
import concurrent.futures
import contextlib
import threading
from collections.abc import AsyncIterator, Callable
from typing import TypeVar

Result = TypeVar("Result")


class Places:
    """Lets little work be done at a time, and less of each client.

    Args:
      most: places in all.
      of_client: places of a client.
    """

    def __init__(self, most: int, of_client: int):
        self._all, self._of_client = asyncio.Semaphore(most), of_client
        self._clients: dict[str, asyncio.Semaphore] = {}
        self._users: dict[str, int] = {}

    @contextlib.asynccontextmanager
    async def place(self, client: str) -> AsyncIterator[None]:
        """Waits for a place of a client, and has it."""
        own = self._clients.setdefault(client, asyncio.Semaphore(self._of_client))
        self._users[client] = self._users.get(client, 0) + 1
        try:
            async with own, self._all:
                yield
        finally:
            self._users[client] -= 1
            if not self._users[client]:
                del self._users[client], self._clients[client]


async def in_own_thread(function: Callable[..., Result], *arguments) -> Result:
    """Returns a function's result, from a thread that ends with the process.

    The threads of `asyncio.to_thread` are few, and the process waits for them at its end.
    """
    future: concurrent.futures.Future[Result] = concurrent.futures.Future()

    def run() -> None:
        try:
            result = function(*arguments)
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(result)

    # Cancelling the waiting must not keep the thread from ending.
    future.set_running_or_notify_cancel()
    threading.Thread(target=run, name="work", daemon=True).start()
    return await asyncio.wrap_future(future)
