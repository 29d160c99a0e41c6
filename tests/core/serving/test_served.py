import pytest
from refusals import refused


def test_equals_in_process(connect, export_ports, protocol, exported, lines, expected):
    address = f"127.0.0.1:{export_ports[protocol]}"
    for version in (None, int(exported.name)):
        assert connect(address, name="translate", version=version).translate(lines) == expected


@pytest.mark.parametrize(
    ("settings", "flag"),
    [
        ({"signature": "score"}, "INVALID_ARGUMENT"),
        ({"name": "other"}, "--servable_name"),
        ({"version": 5}, "--servable_version"),
        ({"signature": "best"}, "--signature_name"),
    ],
)
def test_refusals(connect, export_ports, protocol, settings, flag):
    client = connect(f"127.0.0.1:{export_ports[protocol]}", **{"name": "translate", **settings})
    with refused("no_answer", flag):
        client.translate(["a"])
