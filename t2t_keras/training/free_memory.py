"""How much more memory this process may take, where the kernel would kill it rather than refuse."""

import re
from pathlib import Path

# Of the second and the first version of control groups: limit, use, and the part of the use that is
# the kernel's copy of files, which it gives up when asked.
_GROUPS = (
    ("sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
    (
        "sys/fs/cgroup/memory",
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        "total_inactive_file",
    ),
)


def free_memory(root: str | Path = "/") -> int:
    """Returns the bytes that may still be taken: of the machine, and of every control group.

    Args:
      root: where `proc` and `sys` stand.

    Returns:
      Bytes; 0 where the system does not tell.
    """
    root = Path(root)
    found = re.search(r"^MemAvailable:\s*(\d+) kB", _text(root / "proc/meminfo"), re.MULTILINE)
    if not found:
        return 0
    return max(min([int(found[1]) * 1024, *_left_in_groups(root)]), 0)


def _left_in_groups(root: Path) -> list[int]:
    # Lines such as 0::/user.slice/session.scope; in a container the path may be one outside.
    groups = {line.split(":", 2)[2] for line in _text(root / "proc/self/cgroup").splitlines()}
    left = []
    for mounted, limit, use, files in _GROUPS:
        top = root / mounted
        for directory in {top} | {
            each
            for group in groups
            for each in [top / group.lstrip("/"), *(top / group.lstrip("/")).parents]
            if each.is_relative_to(top)
        }:
            most, used = _text(directory / limit).strip(), _text(directory / use).strip()
            if most.isdigit() and used.isdigit():
                cached = re.search(
                    rf"^{files} (\d+)$", _text(directory / "memory.stat"), re.MULTILINE
                )
                left.append(int(most) - int(used) + (int(cached[1]) if cached else 0))
    return left


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""
