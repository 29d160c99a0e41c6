"""The most memory that a process has held."""

from pathlib import Path


def peak_bytes(process: int | str = "self") -> int:
    """Returns the peak of a process's resident memory since its program was started.

    Not `resource.getrusage`, whose peak counts that of the process it was forked from.

    Args:
      process: its number; "self" is this one.

    Raises:
      OSError: there is no such process.
      StopIteration: it has ended, and nobody has asked for its status yet.
    """
    status = Path(f"/proc/{process}/status").read_text(encoding="utf-8").splitlines()
    line = next(line for line in status if line.startswith("VmHWM:"))
    return int(line.split()[1]) << 10
