"""How many cores of the machine's processors there are to work on."""

import os


def usable_cores() -> int:
    """Returns how many cores this process may use.

    Under `taskset`, or in a container or a Slurm job with a set of cores of its own, these are
    fewer than the machine has. Where the system does not tell, it is all of them.
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
