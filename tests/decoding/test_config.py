import types
from typing import ClassVar

import pytest

from t2t_keras.data.problem import Problem
from t2t_keras.decoding.config import DecodeConfig, decode_config
from t2t_keras.decoding.translator import Translator
from t2t_keras.errors import UserError


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("temperature=0.5", "temperature would have no effect in a beam search"),
        ("seed=3,top_p=0.9,top_k=5", "top_k and top_p and seed would have no effect"),
        ("samples=2,beam_size=8", "beam_size would have no effect while samples=2"),
        ("samples=2,coverage_penalty=0.2", "coverage_penalty would have no effect"),
    ],
)
def test_a_setting_without_effect_is_refused(text, message):
    with pytest.raises(UserError, match=message):
        decode_config(text)


def test_a_problem_s_beam_does_not_hinder_sampling():
    config = decode_config("samples=2,seed=3,alpha=0", {"beam_size": 21})
    assert (config.samples, config.seed, config.beam_size) == (2, 3, 21)
    assert decode_config("temperature=1,seed=0").samples == 0


class Parsing(Problem):
    decoding: ClassVar = {"beam_size": 21, "alpha": 0.3}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("alpha=1", DecodeConfig(beam_size=21, alpha=1.0)),
        (DecodeConfig(alpha=1.0), DecodeConfig(beam_size=4, alpha=1.0)),
    ],
)
def test_all_settings_of_a_translator_leave_none_to_the_problem(model, tokenizer, given, expected):
    record = types.SimpleNamespace(
        tokenizer=tokenizer, problem=Parsing(), make_model=lambda dtype: model
    )
    assert Translator.from_record(record, given).config == expected
