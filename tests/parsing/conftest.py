from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def toy_treebank(load_module):
    """The module of random trees."""
    return load_module(Path(__file__).parent / "toy_treebank.py")
