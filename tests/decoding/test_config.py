import dataclasses

import pytest

from t2t_keras.decoding.config import DecodeConfig, decode_config
from t2t_keras.errors import UserError


def test_changes():
    assert decode_config() == DecodeConfig(beam_size=4, alpha=0.6, extra_length=50)
    changed = decode_config("beam_size=1, alpha=0,extra_length=3,batch_tokens=1e4")
    assert changed == DecodeConfig(beam_size=1, alpha=0.0, extra_length=3, batch_tokens=10_000)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("batch_size=32", "'batch_tokens' here, and counts tokens"),
        ("weights_dtype=int8", "bfloat16"),
        ("seed=3,top_k=5", "top_k and seed would have no effect"),
        ("samples=2,beam_size=8", "beam_size would have no effect with samples=2"),
    ],
)
def test_what_is_refused(text, message):
    with pytest.raises(UserError, match=message):
        decode_config(text)


NUMBERS = [each.name for each in dataclasses.fields(DecodeConfig) if each.type in (int, float)]


@pytest.mark.parametrize("name", NUMBERS)
def test_every_number_has_an_upper_bound(name):
    with pytest.raises(UserError, match=f"'{name}' must be <= "):
        decode_config(f"{name}=1e20")


def test_a_problem_s_beam_does_not_hinder_sampling():
    config = decode_config("samples=2,seed=3,alpha=0", {"beam_size": 21})
    assert (config.samples, config.seed, config.beam_size) == (2, 3, 21)
    assert decode_config("temperature=1,seed=0").samples == 0
