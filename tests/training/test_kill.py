"""A process that is killed, at a random step and while it writes, and started again."""

import random

import numpy as np
from training_runs import newest_step, numbers_in

STEPS = 36


def test_what_is_killed_continues_bit_for_bit(start_trainer, make_record, tmp_path):
    run, whole = tmp_path / "killed", tmp_path / "whole"
    record = make_record(d_model=64, d_ff=512, train_steps=STEPS)

    def start(directory):
        saves = "--save_checkpoints_secs=0", "--keep_checkpoint_max=3"
        return start_trainer(directory, record, *saves)

    def is_writing():
        return any(run.glob("model.ckpt-*_temp"))

    def start_and_kill(condition):
        first, process = newest_step(run), start(run)
        process.wait_until(lambda: condition(first))
        process.kill()

    at = random.randrange(1, STEPS // 3)
    print(f"The first kill comes at step {at}.")
    start_and_kill(lambda _: newest_step(run) >= at)
    for _ in range(5):
        start_and_kill(lambda first: newest_step(run) > first and is_writing())
        if hit := is_writing():
            break
    assert hit, "no kill hit the writing of a checkpoint"
    assert at < newest_step(run) < STEPS, "killed before the end"
    assert f"Continuing from {run}/model.ckpt-" in start(run).said()
    assert not list(run.glob("*_temp"))
    start(whole).said()
    killed, expected = (numbers_in(each / f"model.ckpt-{STEPS}") for each in (run, whole))
    np.testing.assert_array_equal(killed, expected)
