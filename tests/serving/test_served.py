"""A served export answers both clients, as the same process translates."""

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
