"""What is told of a step's memory is for the step that the same command would do."""

import json
import re

import numpy as np
import pytest

from t2t_keras.data.batches import TokenBatches, split_batch
from t2t_keras.training import devices
from t2t_keras.training.dry_run import dry_run
from t2t_keras.training.microbatch import Microbatch
from t2t_keras.training.train_options import TrainOptions
from t2t_keras.training.training_cost import hardware_name


@pytest.fixture
def told(make_request, generated, tmp_path, monkeypatch):
    """Returns a function that returns what is told: replicas, pairs, tokens a side, the text."""
    # TensorFlow already computes in this process.
    monkeypatch.setattr(devices, "divide_cpu", lambda replicas, gpus: None)

    def told(microbatch_tokens, **options):
        # As wide as shows in whole megabytes.
        size = dict(microbatch_tokens=microbatch_tokens, batch_tokens=3000, d_ff=8192)
        request = make_request(**size)
        text = dry_run(request, tmp_path, 0, TrainOptions(**options))
        found = re.match(r"Each of (\d+) replica.* at worst ([\d,]+) pairs of (\d+) tokens", text)
        return *(int(each.replace(",", "")) for each in found.groups()), text

    return told


@pytest.mark.parametrize("replicas", [1, 2, 8])
def test_a_replica_holds_its_share(told, generated, replicas):
    here, pairs, length, _ = told(0, cpu_replicas=replicas)
    assert here == replicas
    lengths = generated.store("train").lengths
    batches = TokenBatches(lengths, 3000, 32, seed=0)
    shares = [
        len(part) * int(lengths[part].max())
        for batch in batches.epoch(0)
        for part in split_batch(lengths, batch, 10_000, replicas)[0]
        if len(part)
    ]
    assert max(shares) <= pairs * length < max(shares) + length


def test_what_is_asked_for_is_split_into_and_a_step_needs_no_more(told):
    assert np.prod(told(100)[1:3]) == pytest.approx(100, abs=13)
    whole, more = told(0)[1:3], told(100_000)[1:3]
    assert more == whole


@pytest.mark.parametrize("xla", [False, True])
@pytest.mark.parametrize("replicas", [1, 8])
def test_accumulators_are_counted_where_a_step_is_split(told, generated, replicas, xla):
    lengths = generated.store("train").lengths
    steps = TokenBatches(lengths, 3000, 32, seed=0).epoch(0)

    def is_split(tokens):
        return any(len(split_batch(lengths, batch, tokens, replicas, xla)) > 1 for batch in steps)

    least = next(tokens for tokens in range(9000 // replicas, 0, -1) if is_split(tokens)) + 1
    for tokens, megabytes in ((least - 1, "2"), (least, "0"), (0, "0")):
        text = told(tokens, cpu_replicas=replicas, xla=xla)[3]
        assert re.search(r"accumulators +(\d+) MB", text)[1] == megabytes


def test_fixed_shapes_are_rounded_up_and_filled(told):
    _, pairs, length, _ = told(100_000, xla=True)
    assert length == 16
    assert pairs * length == 100_000


def test_what_the_run_remembers_is_taken(told, make_request, tmp_path, capsys):
    hparams = make_request(microbatch_tokens=0, batch_tokens=3000).hparams
    Microbatch(tmp_path, hparams, hardware_name()).find(lambda tokens: tokens <= 130, 3000)
    tokens = json.loads((tmp_path / "microbatch.json").read_text())["tokens"]
    _, pairs, length, text = told(0)
    assert tokens <= pairs * length < tokens + length
    assert f"microbatch_tokens={tokens}," in text
    assert f"as {tmp_path}/microbatch.json says" in capsys.readouterr().out
    # It was found for one replica.
    assert "microbatch_tokens=auto" in told(0, cpu_replicas=2)[3]
