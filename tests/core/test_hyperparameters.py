import dataclasses

import pytest
from refusals import refused

from t2t_keras.hyperparameters import (
    TENSOR2TENSOR_NAMES,
    HParams,
    LayerConfig,
    ModelConfig,
    config_arguments,
    override_hparams,
    take_config,
)
from t2t_keras.settings import override, setting


def test_every_field_is_a_documented_setting_whose_default_is_allowed():
    fields = {field.name: field for field in dataclasses.fields(HParams)}
    assert all(fields[name].metadata.get("meaning") for name in HParams().config())
    assert override_hparams(HParams(), HParams().config()) == HParams()


def test_tensor2tensor_s_names_are_answered_with_ours():
    common = {"hidden_size": "d_model", "filter_size": "d_ff", "num_hidden_layers": "num_layers"}
    common |= {"batch_size": "batch_tokens", "clip_grad_norm": "clip_norm"}
    common |= dict.fromkeys(("residual_dropout", "layer_prepostprocess_dropout"), "dropout")
    common |= dict.fromkeys(("max_input_seq_length", "max_target_seq_length"), "max_length")
    common |= {"learning_rate_constant": "learning_rate", "activation_dtype": "compute_dtype"}
    common |= {"learning_rate_warmup_steps": "warmup_steps"}
    common |= {f"optimizer_{name}": name for name in ("adam_beta1", "adam_beta2", "adam_epsilon")}
    assert common.items() <= TENSOR2TENSOR_NAMES.items()
    for theirs, ours in TENSOR2TENSOR_NAMES.items():
        assert ours.partition(",")[0] in {field.name for field in dataclasses.fields(HParams)}
        with refused("unknown_name", f"'{theirs}'", f"'{ours.partition(',')[0]}'"):
            override_hparams(HParams(), {theirs: 1})


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ("d_model=513,num_heads=1", ["d_model", 513]),
        ('trainable=["encoder.*", "(x"]', ["trainable", "'(x'"]),
        ("positions=rotary,d_k=3", ["positions=rotary", "d_k", 3]),
    ],
)
def test_values_that_no_model_has_are_refused(changes, names):
    with refused("bad_value", *names):
        override_hparams(HParams(), changes)


RATES = "adam_beta1 adam_beta2 ema_decay"
DROPPED = "label_smoothing dropout attention_dropout relu_dropout"
COUNTS = "lora_rank train_steps microbatch_tokens subword_nbest d_k d_v num_encoder_layers"
WEIGHTS = "learning_rate adam_epsilon weight_decay clip_norm lora_alpha subword_sampling"


@pytest.mark.parametrize(
    ("limit", "beyond", "names"),
    [
        (0, -1, f"{COUNTS} num_decoder_layers self_attention_radius"),
        (0, -1e-7, f"{RATES} {DROPPED} {WEIGHTS}"),
        (1, 0, "warmup_steps batch_tokens num_heads d_ff num_layers parameter_attention_heads"),
        (2, 1, "max_length d_model"),
        (0.999999, 1, RATES),
        (0.99, 0.991, DROPPED),
        (1, 1.001, "subword_sampling"),
        (1000, 1001, "num_layers num_encoder_layers num_decoder_layers"),
        (65_535, 65_536, "max_length"),
    ],
)
def test_limits(limit, beyond, names):
    for name in names.split():
        override(HParams(), {name: limit})
        with refused("bad_value", f"'{name}'", limit):
            override(HParams(), {name: beyond})


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ("num_heads=7", ["d_model=512", "num_heads=7"]),
        ("num_heads=7,d_k=64", ["d_model=512", "num_heads=7"]),
        ("microbatch_tokens=255", ["max_length=256", "microbatch_tokens=255"]),
        ("batch_tokens=255", ["max_length=256", "batch_tokens=255"]),
        ("microbatch_tokens=auto,batch_tokens=255", ["max_length=256", "batch_tokens=255"]),
        ("parameter_attention_heads=4", ["feed_forward=feed_forward"]),
        ("positions=learned,first_position=256", ["first_position=256", "max_positions=256"]),
        ("lora_alpha=8", ["lora_alpha", "lora_rank=0"]),
        ("schedule=cosine", ["learning_rate", "schedule=cosine", 1.0]),
        ("schedule=inverse_square_root,optimizer=lion,learning_rate=2", ["learning_rate", 2.0]),
        ("max_positions=9", ["positions=sinusoidal", "positions=learned"]),
        ("positions=none,max_positions=9", ["max_positions", "positions=none"]),
        ("positions=rotary,max_positions=9", ["max_positions", "positions=rotary"]),
        ("positions=none,sinusoids=concatenated", ["sinusoids", "positions=none"]),
        ("positions=rotary,sinusoids=concatenated", ["sinusoids", "positions=rotary"]),
        ("positions=learned,sinusoids=concatenated", ["sinusoids", "positions=learned"]),
        ("positions=rotary,first_position=1", ["first_position", "positions=rotary"]),
        ("positions=none,first_position=1", ["first_position", "positions=none"]),
        ("weight_decay=0.1", ["optimizer=adam:", "optimizer=adamw"]),
        ("subword_nbest=9", ["subword_sampling=0.0"]),
        ("compute_dtype=float16,optimizer=adamw", ["float16", "optimizer=adam,", "adamw"]),
    ],
)
def test_values_that_do_not_fit_together_are_refused(changes, names):
    with refused("conflicting_settings", *names):
        override_hparams(HParams(), changes)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ("d_model=1024,num_heads=16", (64, 64)),
        ("d_k=16", (16, 64)),  # Table 3, rows (B): d_k alone is lowered.
        ("num_heads=7,d_k=64,d_v=32", (64, 32)),
        # At the limits of values that go together.
        ("positions=learned,first_position=255", (64, 64)),
        ("positions=rotary,d_k=2", (2, 64)),
        ("compute_dtype=float16,optimizer=adam", (64, 64)),
        ("schedule=cosine,learning_rate=0.999", (64, 64)),
        ("schedule=cosine,learning_rate=2,optimizer=adafactor", (64, 64)),
        ("max_length=65535,batch_tokens=65535,microbatch_tokens=65535", (64, 64)),
    ],
)
def test_head_widths(changes, expected):
    hparams = override_hparams(HParams(), changes)
    assert hparams.head_widths(hparams.d_model) == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ("", (6, 6)),
        ("num_layers=3,num_encoder_layers=2", (2, 3)),
        ("num_layers=3,num_decoder_layers=2", (3, 2)),
        ("num_encoder_layers=12,num_decoder_layers=1", (12, 1)),
    ],
)
def test_depths(changes, expected):
    assert override_hparams(HParams(), changes).depths() == expected


@dataclasses.dataclass(frozen=True)
class OwnHParams(HParams):
    extra: int = setting(1, "one more")


def test_a_config_becomes_arguments_and_back():
    own = OwnHParams(extra=3, d_ff=8)
    again = take_config(ModelConfig, None, config_arguments(own))
    assert (type(again), again) == (OwnHParams, own)
    changed = take_config(ModelConfig, own, arguments := {"extra": 5, "name": "x"})
    assert (changed.extra, changed.d_ff, arguments) == (5, 8, {"name": "x"})
    # Of ours, a layer keeps only what it has.
    assert take_config(LayerConfig, HParams(d_ff=8), {"dropout": 0.2}) == LayerConfig(
        d_ff=8, dropout=0.2
    )
    with refused("not_registered", "mine.Own"):
        take_config(LayerConfig, None, {"config_class": "mine.Own"})


@pytest.mark.parametrize(("overrides", "taken"), [("256", 256), ("auto", 0)])
def test_a_sentence_as_long_as_the_batch_fits(overrides, taken):
    changed = override_hparams(HParams(), f"microbatch_tokens={overrides},batch_tokens=256")
    assert (changed.microbatch_tokens, changed.batch_tokens) == (taken, 256)
