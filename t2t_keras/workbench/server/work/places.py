"""Slow work outside the event loop: few threads at a time, which the process does not wait for."""

import asyncio
import concurrent.futures
import contextlib
import threading
import weakref
from collections.abc import AsyncIterator, Callable
from typing import TypeVar

Result = TypeVar("Result")


class Places:
    """Limits how much work is done at a time, in all and for each client.

    Args:
      most: places in all.
      of_client: places of a client.
    """

    def __init__(self, most: int, of_client: int):
        self._all, self._of_client = asyncio.Semaphore(most), of_client
        # A client is forgotten once nobody has or awaits a place of it.
        self._clients: weakref.WeakValueDictionary[str, asyncio.Semaphore]
        self._clients = weakref.WeakValueDictionary()

    @contextlib.asynccontextmanager
    async def place(self, client: str) -> AsyncIterator[None]:
        """Waits for a place for a client, and keeps it."""
        of_client = self._clients.setdefault(client, asyncio.Semaphore(self._of_client))
        async with of_client, self._all:
            yield


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
