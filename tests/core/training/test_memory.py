"""The estimate of a step's memory beside what TensorFlow allocates."""

import math

import pytest
from training_runs import allocated_in_a_step

from t2t_keras import hyperparameters
from t2t_keras.hyperparameters import HParams
from t2t_keras.models.transformer import Transformer
from t2t_keras.training.memory import step_memory
from t2t_keras.training.optimizer import make_optimizer

VOCAB_SIZE = 1000
PAPERS_BASE = 63_045_632


@pytest.mark.parametrize(
    ("changes", "tokens", "length"),
    [
        ({"attention_dropout": 0.1, "relu_dropout": 0.1, "pre_norm": True}, 2000, 100),
        ({"self_attention_radius": 20}, 3000, 300),
        ({"feed_forward": "parameter_attention", "parameter_attention_heads": 2}, 2000, 100),
        ({"compute_dtype": "bfloat16", "attention_dropout": 0.1}, 2000, 100),
        ({"recompute": True, "attention_dropout": 0.1, "num_layers": 2}, 2000, 100),
    ],
)
def test_a_step_allocates_what_was_estimated(changes, tokens, length):
    size = dict(num_layers=1, d_model=64, d_ff=256, num_heads=4, batch_tokens=5000)
    hparams = hyperparameters.hparams("transformer_base", size | changes)
    memory = step_memory(hparams, (VOCAB_SIZE, None), tokens, length)
    passing = memory["at most"] - memory["weights"] - memory["optimizer"]
    actual = allocated_in_a_step(hparams, VOCAB_SIZE, tokens, length)
    assert passing == pytest.approx(actual, rel=0.25)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("transformer_base", "num_layers=3,d_k=7,d_v=11,positions=learned,max_positions=9"),
        ("transformer_parameter_attention_a", "num_layers=1,d_ff=8"),
        ("transformer_base_v3", "num_layers=1"),
        (
            "transformer_base",
            "num_layers=1,share_embeddings=input,source_bias=true,embedding_norm=true",
        ),
        (
            "transformer_base",
            "num_layers=1,d_v=9,share_embeddings=none,attention_bias=true,softmax_bias=true",
        ),
    ],
)
def test_weights_are_counted_as_the_model_has_them(name, changes):
    hparams = hyperparameters.hparams(name, changes)
    sources = 12 if hparams.share_embeddings == "none" else None
    model = Transformer.from_hparams(hparams, 10, source_vocab_size=sources)
    assert hparams.count_weights(10, sources) == model.count_params()


@pytest.mark.parametrize("name", ["adam", "adamw", "lion", "adafactor"])
def test_moments_are_as_large_as_those_of_keras(name):
    hparams = hyperparameters.hparams("transformer_tiny", {"optimizer": name})
    model = Transformer.from_hparams(hparams, VOCAB_SIZE)
    optimizer = make_optimizer(hparams, model.trainable_variables)
    num_bytes = 4 * sum(math.prod(variable.shape) for variable in optimizer.variables)
    actual = step_memory(hparams, (VOCAB_SIZE, None), 10, 10)["optimizer"]
    assert actual == pytest.approx(num_bytes, rel=0.05)
    averaged = step_memory(
        hyperparameters.hparams("transformer_tiny", {"optimizer": name, "ema_decay": 0.9}),
        (VOCAB_SIZE, None),
        10,
        10,
    )
    assert averaged["optimizer"] - actual == averaged["weights"], "an average of each weight"


def test_what_lasts():
    assert HParams().count_weights(37_000) == PAPERS_BASE
    whole = step_memory(HParams(), (37_000, None), 1024, 64)
    split = step_memory(HParams(), (37_000, None), 1024, 64, accumulates=True)
    half = step_memory(HParams(compute_dtype="bfloat16"), (37_000, None), 1024, 64)
    assert whole["weights"] == whole["gradients"] == split["accumulators"] == 4 * PAPERS_BASE
    assert whole["optimizer"] == half["optimizer"] == 8 * PAPERS_BASE
    assert (whole["accumulators"], half["weights"]) == (0, 6 * PAPERS_BASE)
    thin = step_memory(HParams(lora_rank=8), (37_000, None), 1024, 64, accumulates=True)
    assert (thin["weights"], thin["optimizer"], thin["accumulators"]) == (4 * PAPERS_BASE, 0, 0)
    # Of few tokens gradients take more than activations.
    few = step_memory(HParams(), (37_000, None), 10, 10)
    assert few["at most"] == few["weights"] + few["optimizer"] + few["gradients"]
