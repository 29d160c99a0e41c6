"""A progress line on standard error, where tqdm is installed and standard error is a terminal.

A machine that only trains under JAX need not have tqdm; it works there without the line.
"""

import contextlib
import importlib


class SilentBar:
    """Takes what a tqdm bar takes, and shows nothing.

    Attributes:
      disable: True, as of a tqdm bar that shows nothing.
    """

    disable = True

    def __enter__(self) -> "SilentBar":
        return self

    def __exit__(self, *_) -> None:
        pass

    def update(self, n: float = 1) -> None:
        """Shows nothing."""

    def set_postfix_str(self, text: str = "", refresh: bool = True) -> None:
        """Shows nothing."""

    def close(self) -> None:
        """Has nothing to end."""


def progress_bar(**arguments):
    """Returns a bar: tqdm's with these arguments, or a `SilentBar` where there is no tqdm."""
    tqdm = _tqdm()
    # disable=None: quiet where standard error is not a terminal.
    return tqdm(disable=None, **arguments) if tqdm else SilentBar()


def show_reading(stream, total: int | None, desc: str):
    """Returns a context whose value reads from `stream`, with a bar of the bytes read.

    Args:
      stream: has `read`.
      total: bytes to come, None if not known.
      desc: what stands before the bar.
    """
    tqdm = _tqdm()
    if tqdm is None:
        return contextlib.nullcontext(stream)
    return tqdm.wrapattr(stream, "read", total=total, desc=desc, disable=None)


def print_beside_bar(text: str) -> None:
    """Prints a line without breaking the bars that are shown."""
    tqdm = _tqdm()
    with tqdm.external_write_mode() if tqdm else contextlib.nullcontext():
        print(text, flush=True)


def _tqdm():
    try:
        return importlib.import_module("tqdm").tqdm
    except ModuleNotFoundError:
        return None
