"""The cores that a process may use, told by a process that may use only one."""

import os
import subprocess
import sys

import pytest

from t2t_keras.processor_cores import usable_cores

TOLD = """
import os
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
from t2t_keras.bin import t2t_datagen
from t2t_keras.bin.flags import FlagValues
from t2t_keras.processor_cores import usable_cores
flags = FlagValues()
t2t_datagen.define_flags(flags)
print(usable_cores(), flags["num_workers"].default)
"""


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs Linux's affinity")
def test_a_process_that_is_confined_to_one_core():
    told = subprocess.run([sys.executable, "-c", TOLD], capture_output=True, text=True, check=True)
    assert told.stdout == "1 1\n"


def test_all_of_them_where_the_system_does_not_tell(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert usable_cores() == 6
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert usable_cores() == 1
