"""The commands that make runs are complete: a comma may end an argument of make's functions."""

import re
import shutil
import subprocess

import pytest


def test_every_target_runs_commands_that_a_shell_can_read(root):
    if not shutil.which("make"):
        pytest.skip("needs make")
    targets = re.findall(r"^\.PHONY: (.*)$", (root / "Makefile").read_text("utf-8"), re.MULTILINE)
    for target in targets[0].split():
        # What it would run, and all that it needs, if nothing was there.
        command = ["make", "--dry-run", "--always-make", target]
        printed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
        read = subprocess.run(
            ["sh", "-n"], input=printed.stdout, capture_output=True, text=True, check=False
        )
        assert read.returncode == 0, (target, read.stderr)
