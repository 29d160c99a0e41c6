"""Worker processes that call one function, with results in the order of the calls."""

import collections
import concurrent.futures
import contextlib
import itertools
import multiprocessing
import multiprocessing.connection
import os
import pickle
import signal
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from t2t_keras import registry
from t2t_keras.errors import UserError

_function: Callable | None = None


@contextlib.contextmanager
def workers(function: Callable, count: int) -> Iterator[Callable[[Iterable[tuple]], Iterator]]:
    """Gives a function of argument tuples that yields what `function` returns for each, in order.

    Args:
      function: what the workers call; it is sent to each of them once.
      count: processes; 1 is this one.

    Raises:
      UserError: a worker ended without a word.
    """
    if count == 1:
        yield lambda calls: itertools.starmap(function, calls)
        return
    with tempfile.TemporaryDirectory() as folder:
        # In a file: sending more than a pipe holds to a worker that dies at its start never ends.
        file = Path(folder) / "function.pickle"
        file.write_bytes(pickle.dumps(function))
        # Never fork: this process may hold threads, TensorFlow's among them.
        pool = concurrent.futures.ProcessPoolExecutor(
            count,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_start_worker,
            initargs=(file, registry.user_directories()),
        )
        try:
            yield lambda calls: _in_order(pool, calls, 2 * count)
        except BrokenProcessPool as error:
            raise UserError(
                "A worker process ended without a word, as when memory runs out. Run the same "
                "command again with fewer --num_workers."
            ) from error
        finally:
            pool.shutdown(cancel_futures=True)


def _in_order(pool: concurrent.futures.Executor, calls: Iterable[tuple], ahead: int) -> Iterator:
    """Yields the results in the order of the calls, with at most `ahead` of them under way."""
    pending = collections.deque()
    for call in calls:
        pending.append(_submit(pool, call))
        if len(pending) == ahead:
            yield pending.popleft().result()
    while pending:
        yield pending.popleft().result()


def _submit(pool: concurrent.futures.Executor, call: tuple) -> concurrent.futures.Future:
    """Gives a worker its call; where there are fewer workers than allowed, this starts one.

    Ctrl-C reaches every process of a terminal. A worker inherits that it is blocked, so that the
    main process alone answers it.
    """
    unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return pool.submit(_call, *call)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)


def _start_worker(file: Path, user_directories: tuple[str, ...]) -> None:
    """Prepares a worker process, which ends with its parent even when that one is killed.

    Args:
      file: has what it is to call.
      user_directories: of --t2t_usr_dir, whose classes may be in what it is to call or to take.
    """
    global _function
    for directory in user_directories:
        registry.import_user_directory(directory)
    _function = pickle.loads(file.read_bytes())
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    multiprocessing.connection.wait([multiprocessing.parent_process().sentinel])
    os._exit(1)


def _call(*arguments):
    return _function(*arguments)
