"""The memory that is free, where the kernel and control groups tell it."""

import pytest

from t2t_keras.training.free_memory import free_memory

KB = 1024


@pytest.fixture
def write(tmp_path):
    """Returns a function that writes a file of a made-up machine, on which 1,000 kB are free."""

    def write(path, text):
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    write("proc/meminfo", "MemTotal:  9000 kB\nMemFree:  7 kB\nMemAvailable:    1000 kB\n")
    return write


def test_this_machine_has_some():
    assert free_memory() > 1e6


def test_the_machine_s(tmp_path, write):
    assert free_memory(tmp_path) == 1000 * KB


def test_a_system_that_does_not_tell(tmp_path):
    assert free_memory(tmp_path / "nowhere") == 0


@pytest.mark.parametrize("directory", ["", "/user", "/user/one"])
def test_a_group_s_and_those_around_it(tmp_path, write, directory):
    write("proc/self/cgroup", "0::/user/one\n")
    write(f"sys/fs/cgroup{directory}/memory.max", f"{500 * KB}\n")
    write(f"sys/fs/cgroup{directory}/memory.current", f"{400 * KB}\n")
    write(f"sys/fs/cgroup{directory}/memory.stat", f"file 9\ninactive_file {30 * KB}\n")
    assert free_memory(tmp_path) == 130 * KB


def test_the_least_counts(tmp_path, write):
    write("proc/self/cgroup", "4:memory:/job\n0::/\n")
    for group, limit in (("memory", 800), ("memory/job", 300), ("", 5000)):
        old = group.startswith("memory")
        write(
            f"sys/fs/cgroup/{group}/{'memory.limit_in_bytes' if old else 'memory.max'}",
            str(limit * KB),
        )
        write(
            f"sys/fs/cgroup/{group}/{'memory.usage_in_bytes' if old else 'memory.current'}",
            str(100 * KB),
        )
    assert free_memory(tmp_path) == 200 * KB


def test_no_limit_and_more_used_than_allowed(tmp_path, write):
    write("proc/self/cgroup", "0::/one\n")
    write("sys/fs/cgroup/one/memory.max", "max\n")
    write("sys/fs/cgroup/one/memory.current", "5\n")
    assert free_memory(tmp_path) == 1000 * KB
    write("sys/fs/cgroup/one/memory.max", "3\n")
    assert free_memory(tmp_path) == 0
