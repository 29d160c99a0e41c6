import keras
import pytest

from t2t_keras import registry
from t2t_keras.training.schedules import TransformerSchedule


def formula(step, d_model, warmup_steps):
    """Section 5.3, equation 3; the first step is number 1."""
    return d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)


@pytest.mark.parametrize(("d_model", "warmup_steps"), [(512, 4000), (1024, 4000), (128, 10)])
@pytest.mark.parametrize("step", [1, 2, 10, 3999, 4000, 4001, 100_000, 300_000])
def test_formula(d_model, warmup_steps, step):
    # Called with the number of steps done before.
    rate = TransformerSchedule(d_model, warmup_steps)(step - 1)
    assert rate.dtype == "float32"
    assert float(rate) == pytest.approx(formula(step, d_model, warmup_steps), rel=1e-6)


@pytest.mark.parametrize(
    ("name", "peak"), [("transformer_base", 6.98771e-4), ("transformer_big", 4.94106e-4)]
)
def test_peak_of_the_paper_s_sets(name, peak):
    hparams = registry.hparams(name)
    schedule = TransformerSchedule(hparams.d_model, hparams.warmup_steps, hparams.learning_rate)
    assert float(schedule(3999)) == pytest.approx(peak, rel=1e-6)
    assert max(float(schedule(step)) for step in range(3900, 4100)) == float(schedule(3999))


def test_multiplier():
    assert float(TransformerSchedule(512, 4000, 2.5)(99)) == pytest.approx(
        2.5 * formula(100, 512, 4000), rel=1e-6
    )


def test_config_round_trip():
    schedule = TransformerSchedule(32, warmup_steps=7, multiplier=0.5)
    copy = keras.optimizers.schedules.deserialize(
        keras.optimizers.schedules.serialize(schedule),
        custom_objects={"TransformerSchedule": TransformerSchedule},
    )
    assert copy.get_config() == dict(d_model=32, warmup_steps=7, multiplier=0.5)
    assert float(copy(20)) == float(schedule(20))
