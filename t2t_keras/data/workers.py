"""Worker processes that call functions, with results in the order of the calls."""

import concurrent.futures
import contextlib
import itertools
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool

from t2t_keras import registry
from t2t_keras.errors import UserError

# call(function, arguments) yields function(*each) for each of the arguments, in their order.
Call = Callable[[Callable, Iterable[tuple]], Iterator]


@contextlib.contextmanager
def workers(count: int) -> Iterator[Call]:
    """Gives a `Call` that has its calls done by `count` processes; 1 is this one."""
    if count == 1:
        yield itertools.starmap
        return
    # Never fork: this process may have threads, TensorFlow's among them.
    pool = concurrent.futures.ProcessPoolExecutor(
        count,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_start_worker,
        initargs=registry.user_directories,
    )

    def call(function: Callable, arguments: Iterable[tuple]) -> Iterator:
        # Ctrl-C reaches every process of a terminal, but only this one shall answer it: workers
        # inherit the blocked signal. They start here.
        unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            return pool.map(function, *zip(*arguments, strict=True))
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)

    try:
        yield call
    except BrokenProcessPool as error:
        if sys.version_info < (3, 11, 5):
            # Python would wait until somebody has read what the workers should have (gh-94777).
            pool._call_queue._reader.close()
        raise UserError(
            "A worker process ended unexpectedly, perhaps because memory ran out. Run the same "
            "command again with fewer --num_workers.",
            code="worker_ended",
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


def _start_worker(*user_directories: str) -> None:
    """Prepares a worker process, which ends with its parent even when that one is killed."""
    for directory in user_directories:
        registry.import_user_directory(directory)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    multiprocessing.connection.wait([multiprocessing.parent_process().sentinel])
    os._exit(1)
