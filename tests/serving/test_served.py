"""A served export answers both clients, as the same process translates."""

import os

import numpy as np
import pytest

from t2t_keras.errors import UserError


def test_equals_in_process(connect, export_server, protocol, exported, translator, lines):
    expected = translator.translate(lines)
    for version in (None, int(exported.name)):
        address = f"127.0.0.1:{export_server[protocol]}"
        found = connect(address, name="translate", version=version).translate(lines)
        assert [each.text for each in found] == [each.text for each in expected]
        scores = [each.score for each in expected]
        np.testing.assert_allclose([each.score for each in found], scores, atol=1e-5)
    assert len({each.text for each in found}) > 2


@pytest.mark.parametrize(
    ("settings", "flag"),
    [
        ({"signature": "score"}, "INVALID_ARGUMENT"),
        ({"name": "other"}, "--servable_name"),
        ({"version": 5}, "--servable_version"),
        ({"signature": "best"}, "--signature_name"),
    ],
)
def test_refusals(connect, export_server, protocol, settings, flag):
    client = connect(f"127.0.0.1:{export_server[protocol]}", **{"name": "translate", **settings})
    with pytest.raises(UserError, match=flag):
        client.translate(["a"])


@pytest.fixture(scope="module")
def serving_load(root, load_module):
    return load_module(root / "benchmarks" / "serving_load.py")


@pytest.mark.parametrize(
    ("reference", "counts"), [(None, (9, 1, 0)), ("?", (0, 1, 9))], ids=["right", "wrong"]
)
def test_the_load_of_the_benchmark(
    serving_load, export_server, translator, real_lines, reference, counts
):
    """All answers are compared, and all that is malformed is refused."""
    texts = real_lines[:4]
    translations = [reference or found.text for found in translator.translate(texts)]
    requests = serving_load.make_requests(texts, translations, 10)
    report = serving_load.load({**export_server, "pid": os.getpid()}, requests, clients=4)
    assert tuple(report[name] for name in ("good", "refused", "wrong")) == counts
    assert reference or 0 < report["p50_ms"] <= report["p99_ms"]
