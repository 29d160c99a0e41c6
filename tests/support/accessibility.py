"""Faults of accessibility in a page, as axe-core finds them."""

import sys
from pathlib import Path

import pytest

# Where `make test` puts it if there is npm.
_AXE = Path(sys.prefix, "node_modules", "axe-core", "axe.min.js")


def accessibility_faults(page):
    """Returns (rule, element) for everything that breaks a rule of axe-core."""
    if not _AXE.exists():
        pytest.skip("needs axe-core: npm install --no-save --prefix .venv axe-core")
    page.tab.evaluate(f"{_AXE.read_text('utf-8')};0")
    broken = page.tab.evaluate("axe.run().then(({ violations }) => violations)")
    return [(rule["id"], node["html"]) for rule in broken for node in rule["nodes"]]
