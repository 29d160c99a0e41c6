"""The examples in docs/extending.md do what it says."""

import re
import sys
import types

import keras
import numpy as np
import pytest

from t2t_keras import registry
from t2t_keras.hyperparameters import HParams


@pytest.fixture
def examples(root, monkeypatch):
    """The names that each Python example defines, by the heading above it."""
    for names in (registry.PROBLEMS, registry.HPARAMS_SETS):
        monkeypatch.setattr(names, "entries", dict(names.load()))
    text, defined = (root / "docs" / "extending.md").read_text(encoding="utf-8"), {}
    example = r"^## ([^\n]*)\n[^#]*?```python\n(.*?)```"
    for heading, source in re.findall(example, text, re.M | re.S):
        module = types.ModuleType(f"example {heading}")
        # dataclasses looks a class's module up there.
        monkeypatch.setitem(sys.modules, module.__name__, module)
        exec(source, module.__dict__)
        defined[heading] = module
    return defined


def test_the_problem(examples, tmp_path):
    problem = registry.problem("translate_ende_help_desk_rev", "vocab_size=500")
    assert isinstance(problem, examples["Add a problem"].TranslateEndeHelpDesk)
    assert problem.languages() == ("de", "en")
    assert problem.vocab_size == 500
    names = {split: pair.source.name for split, (pair,) in problem.files(tmp_path).items()}
    assert names == {split: f"{split}.en" for split in ("train", "dev", "test")}


def test_the_hyperparameter_set(examples):
    assert registry.hparams("transformer_more_dropout") == HParams(dropout=0.2)


def test_the_layer(examples):
    layer = examples["Add a layer"].Scale(3.0)
    again = type(layer).from_config(layer.get_config())
    x = np.arange(6.0, dtype="float32").reshape(2, 3)
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(again(x)), x * 3)
