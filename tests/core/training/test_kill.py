"""A process that is killed, in each stage of a mixture and while it writes, and started again."""

import numpy as np
import pytest
from training_runs import newest_step, numbers_in

from t2t_keras import hyperparameters
from t2t_keras.data.batches import TokenBatchSampler
from t2t_keras.data.dataset import open_generated
from t2t_keras.data.generate import generate
from t2t_keras.data.problem import make_problem
from t2t_keras.training.run_config import RunConfig

STEPS, BATCH_TOKENS = 36, 300
# Of 300 and 100 pairs of 12 tokens on a side: 12 steps, 16 steps, and the others.
MIX, UNTIL = ({"a": 1}, {"a": 0.5, "b": 0.5}, {"b": 1}), ({"a": 1}, {"b": 2})


@pytest.fixture
def record(tmp_path):
    """A run on two corpora, in three stages, with examples that are drawn anew each time."""
    (tmp_path / "text").mkdir()
    for name, count in {"a": 300, "b": 100, "dev": 9}.items():
        lines = "".join(" ".join(f"{number:011b}") + "\n" for number in range(count))
        # Each word is a token, and has letters to be divided into.
        lines = lines.replace("0", "low").replace("1", "new")
        for code in ("en", "de"):
            (tmp_path / "text" / f"{name}.{code}").write_text(lines)
    config = dict(source_language="en", target_language="de", vocab_size=272, train=["a", "b"])
    config |= dict(mix=MIX, mix_until=UNTIL, augment={"typos": 0.3})
    problem = make_problem("parallel_text", config)
    generate(problem, tmp_path / "data", tmp_path / "text")
    generated = open_generated(problem, tmp_path / "data")
    lengths = generated.open_examples("train").lengths
    steps = [
        TokenBatchSampler(lengths, BATCH_TOKENS, 32, 0, MIX, UNTIL, generated.corpora).at(n)
        for n in (11, 12, 27, 28)
    ]
    assert [sorted({pair >= 300 for pair in step.tolist()}) for step in steps] == [
        [False],
        [False, True],
        [False, True],
        [True],
    ]
    hparams = dict(num_layers=1, d_model=64, d_ff=512, num_heads=2, warmup_steps=10, max_length=32)
    # Whatever is drawn fits into one microbatch: accumulation would be one more graph to build.
    hparams |= dict(batch_tokens=BATCH_TOKENS, microbatch_tokens=2048, train_steps=STEPS)
    hparams |= dict(subword_sampling=0.3)
    return RunConfig(
        problem=problem,
        hparams=hyperparameters.hparams("transformer_tiny", hparams),
        data_dir=str(tmp_path / "data"),
    ).with_data(generated)


def test_what_is_killed_continues_bit_for_bit(start_trainer, record, tmp_path):
    run, whole = tmp_path / "killed", tmp_path / "whole"

    def start(directory):
        saves = "--save_checkpoints_secs=0", "--keep_checkpoint_max=3"
        return start_trainer(directory, record, *saves)

    def is_writing():
        return any(run.glob("model.ckpt-*.partial"))

    def start_and_kill(at):
        first, process = newest_step(run), start(run)
        process.wait_until(lambda: newest_step(run) > max(first, at) and is_writing())
        process.kill()
        print(f"Killed after step {newest_step(run)}.")
        return is_writing()

    hits = [start_and_kill(at) for at in (4, 18, 29)]
    assert any(hits), "no kill hit the writing of a checkpoint"
    assert newest_step(run) < STEPS, "killed before the end"
    assert f"Continuing from {run}/model.ckpt-" in start(run).wait_for_output()
    assert not list(run.glob("*.partial"))
    start(whole).wait_for_output()
    killed, expected = (numbers_in(directory / f"model.ckpt-{STEPS}") for directory in (run, whole))
    np.testing.assert_array_equal(killed, expected)
