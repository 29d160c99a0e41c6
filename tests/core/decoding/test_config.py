import dataclasses

import pytest
from refusals import refused

from t2t_keras.decoding.config import DecodeConfig, decode_config


def test_changes():
    assert decode_config() == DecodeConfig(beam_size=4, alpha=0.6, extra_length=50)
    changed = decode_config("beam_size=1, alpha=0,extra_length=3,batch_tokens=1e4")
    assert changed == DecodeConfig(beam_size=1, alpha=0.0, extra_length=3, batch_tokens=10_000)


@pytest.mark.parametrize(
    ("text", "code", "named"),
    [
        ("batch_size=32", "unknown_name", ["'batch_tokens'"]),
        ("sampling_temp=0.5", "unknown_name", ["'temperature'"]),
        ("sampling_keep_top_k=5", "unknown_name", ["'top_k'"]),
        ("weights_dtype=int8", "bad_value", ["weights_dtype", "bfloat16", "int8"]),
        ("seed=3,top_k=5", "conflicting_settings", ["top_k", "seed", "samples=0"]),
        ("samples=2,beam_size=8", "conflicting_settings", ["beam_size", "samples=2"]),
        ("samples=2,coverage_penalty=0.1", "conflicting_settings", ["coverage_penalty"]),
        ("temperature=0.5", "conflicting_settings", ["temperature"]),
        ("top_p=0.5", "conflicting_settings", ["top_p"]),
    ],
)
def test_what_is_refused(text, code, named):
    with refused(code, *named):
        decode_config(text)


@pytest.mark.parametrize(
    ("settings", "length"), [("", 55), ("max_length=54", 54), ("max_length=56", 55)]
)
def test_the_maximum_output_length(settings, length):
    assert decode_config(settings).max_output_length(5) == length


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (dict(extra_length=0), 30),
        (dict(extra_length=9), 39),
        (dict(extra_length=9, max_length=29), 30),
        (dict(extra_length=9, max_length=31), 31),
    ],
)
def test_positions_are_for_the_longer_side(settings, expected):
    assert DecodeConfig(max_input_length=30, **settings).max_positions == expected


NUMBERS = [field.name for field in dataclasses.fields(DecodeConfig) if field.type in (int, float)]


# Name, least and largest value, and what is just beyond.
LIMITS = [
    ("beam_size", 1, 1000, 0, 1001),
    ("alpha", 0, 8, -0.1, 8.1),
    ("coverage_penalty", 0, 1e6, -0.1, 1e6 + 1),
    ("extra_length", 0, 100_000, -1, 100_001),
    ("max_length", 0, 100_000, -1, 100_001),
    ("min_length", 1, 100_000, 0, 100_001),
    ("samples", 0, 1000, -1, 1001),
    ("max_input_length", 2, 100_000, 1, 100_001),
    ("lines_at_once", 1, 10**9, 0, 10**9 + 1),
    ("batch_tokens", 1, 10**9, 0, 10**9 + 1),
    ("batches_at_once", 0, 256, -1, 257),
    ("samples=1,temperature", 1e-3, 1e3, 1e-4, 1001),
    ("samples=1,top_k", 0, 10**6, -1, 10**6 + 1),
    ("samples=1,top_p", 1e-6, 1.0, 1e-7, 1.1),
    ("samples=1,seed", -(2**63), 2**63 - 1, -(2**63) - 1, 2**63),
]


@pytest.mark.parametrize(("setting", "least", "largest", "below", "above"), LIMITS)
def test_limits(setting, least, largest, below, above):
    name = setting.rpartition(",")[2]
    for value in (least, largest):
        assert getattr(decode_config(f"{setting}={value}"), name) == value
    for value in (below, above):
        with refused("bad_value", f"'{name}'"):
            decode_config(f"{setting}={value}")


def test_every_number_has_its_limits_here():
    assert {setting.rpartition(",")[2] for setting, *_ in LIMITS} == set(NUMBERS)


def test_a_problem_s_beam_does_not_hinder_sampling():
    config = decode_config("samples=2,seed=3,alpha=0", {"beam_size": 21})
    assert (config.samples, config.seed, config.beam_size) == (2, 3, 21)
    assert decode_config("temperature=1,seed=0").samples == 0
