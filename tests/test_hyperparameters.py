import dataclasses
import re

import pytest

from t2t_keras.errors import UserError
from t2t_keras.hyperparameters import LINEAGE_NAMES, HParams, override_hparams


def test_defaults_are_the_paper_s_base_model():
    # "Attention Is All You Need", Table 3 row (A) "base" and sections 5.1, 5.3 and 5.4.
    base = HParams()
    assert (base.num_layers, base.d_model, base.d_ff, base.num_heads) == (6, 512, 2048, 8)
    assert base.head_widths() == (64, 64)
    assert (base.dropout, base.label_smoothing, base.train_steps) == (0.1, 0.1, 100_000)
    assert (base.warmup_steps, base.learning_rate, base.batch_tokens) == (4000, 1.0, 25_000)
    assert (base.adam_beta1, base.adam_beta2, base.adam_epsilon) == (0.9, 0.98, 1e-9)
    assert (base.attention_dropout, base.symbol_dropout, base.clip_norm) == (0.0, 0.0, 0.0)
    assert base.compute_dtype == "float32"


def test_every_default_is_a_value_that_may_be_set():
    assert override_hparams(HParams(), dataclasses.asdict(HParams())) == HParams()


def test_every_field_is_a_documented_setting():
    assert all(field.metadata.get("meaning") for field in dataclasses.fields(HParams))


def test_hparams_cannot_be_changed_in_place():
    with pytest.raises(dataclasses.FrozenInstanceError):
        HParams().d_model = 1


def test_override_reads_numbers_as_they_are_written():
    changed = override_hparams(HParams(), "train_steps=1e5,batch_tokens=25_000,dropout=.3")
    assert (changed.train_steps, changed.batch_tokens, changed.dropout) == (100_000, 25_000, 0.3)


@pytest.mark.parametrize(("theirs", "ours"), sorted(LINEAGE_NAMES.items()))
def test_a_lineage_name_is_answered_with_ours(theirs, ours):
    ours, comma, difference = ours.partition(",")
    assert ours in {field.name for field in dataclasses.fields(HParams)}
    message = f"The hyperparameter '{theirs}' is called '{ours}' here{comma}{difference}."
    with pytest.raises(UserError, match=re.escape(message)):
        override_hparams(HParams(), {theirs: 1})


@pytest.mark.parametrize(
    "name",
    [
        "hidden_size",
        "filter_size",
        "num_hidden_layers",
        "batch_size",
        "layer_prepostprocess_dropout",
    ],
)
def test_the_common_lineage_names_are_known(name):
    assert name in LINEAGE_NAMES


def test_an_unknown_name_gets_the_nearest():
    with pytest.raises(UserError, match=r"no hyperparameter 'dmodel'\. Did you mean 'd_model'"):
        override_hparams(HParams(), "dmodel=256")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ("num_layers=0", "'num_layers' is at least 1"),
        ("num_layers=six", "'num_layers' takes a whole number; 'six' came"),
        ("d_ff=0", "'d_ff' is at least 1"),
        ("num_heads=0", "'num_heads' is at least 1"),
        ("d_k=-1", "'d_k' is at least 0"),
        ("dropout=1", "'dropout' is at most 0.99"),
        ("dropout=-0.1", "'dropout' is at least 0.0"),
        ("dropout=nan", "'dropout' takes a number; 'nan' came"),
        ("symbol_dropout=1", "'symbol_dropout' is at most"),
        ("label_smoothing=1", "'label_smoothing' is at most"),
        ("learning_rate=nan", "'learning_rate' takes a number; 'nan' came"),
        ("learning_rate=inf", "'learning_rate' takes a number; 'inf' came"),
        ("learning_rate=-1", "'learning_rate' is at least 0.0"),
        ("warmup_steps=0", "'warmup_steps' is at least 1"),
        ("train_steps=1.5", "'train_steps' takes a whole number; '1.5' came"),
        ("train_steps=-1", "'train_steps' is at least 0"),
        ("adam_beta2=1", "'adam_beta2' is at most"),
        ("clip_norm=-1", "'clip_norm' is at least 0.0"),
        ("compute_dtype=bf16", "float32, bfloat16, float16; 'bf16' came"),
    ],
)
def test_a_value_out_of_type_or_range_is_refused(changes, message):
    with pytest.raises(UserError) as raised:
        override_hparams(HParams(), changes)
    assert message in str(raised.value)


def test_an_odd_d_model_is_refused():
    with pytest.raises(UserError, match="d_model=513 is odd"):
        override_hparams(HParams(), "d_model=513,num_heads=1")


def test_heads_that_do_not_divide_d_model_need_both_widths():
    with pytest.raises(UserError, match="d_model=512 is not divisible by num_heads=7"):
        override_hparams(HParams(), "num_heads=7")
    with pytest.raises(UserError, match="not divisible"):
        override_hparams(HParams(), "num_heads=7,d_k=64")
    changed = override_hparams(HParams(), "num_heads=7,d_k=64,d_v=32")
    assert changed.head_widths() == (64, 32)


@pytest.mark.parametrize("name", ["microbatch_tokens", "batch_tokens"])
def test_the_longest_sentence_must_fit_a_batch(name):
    with pytest.raises(UserError, match=rf"max_length=256 exceeds.*{name}=\s*255"):
        override_hparams(HParams(), {name: 255})
    assert getattr(override_hparams(HParams(), {name: 256}), name) == 256


def test_the_microbatch_may_be_left_to_be_found():
    found = override_hparams(HParams(), "microbatch_tokens=auto")
    assert found.microbatch_tokens == 0
    with pytest.raises(UserError, match=r"max_length=256 exceeds.*batch_tokens=\s*255"):
        override_hparams(found, "batch_tokens=255")


def test_head_widths_follow_d_model_and_num_heads():
    assert HParams(d_model=1024, num_heads=16).head_widths() == (64, 64)
    # Table 3, rows (B): d_k alone is lowered.
    assert HParams(d_k=16).head_widths() == (16, 64)
