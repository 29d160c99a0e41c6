import pytest

from t2t_keras.evaluation.results import Result

OF_BASE_MODEL = dict(
    set="transformer_base",
    problem="translate_ende",
    split="test",
    text="newstest2014, full edition (3,003 lines)",
    averaged=5,
    steps=100_000,
    target_tokens=2_500_000_000,
    seconds=43_200.0,
    hardware="8 x Tesla P100-SXM2-16GB",
    bleu=27.0,
    bleu_signature="nrefs:1|tok:13a",
)


@pytest.fixture
def make_result():
    """make_result(**fields): a result of the base model."""
    return lambda **fields: Result(**OF_BASE_MODEL | fields)
