"""A process that is killed, at a random step and while it writes, and started again."""

import random
import time

import numpy as np

STEPS = 36
SIZE = "--hparams=num_layers=1,d_model=64,d_ff=512,batch_tokens=300,max_length=32"
SAVES = ("--save_checkpoints_secs=0", "--keep_checkpoint_max=3")


def test_what_is_killed_continues_bit_for_bit(start_trainer, tmp_path, everything_in, newest_step):
    run = tmp_path / "killed"

    def start(name):
        return start_trainer(tmp_path / name, f"--train_steps={STEPS}", SIZE, *SAVES)

    def is_writing():
        return any(run.glob("model.ckpt-*_temp"))

    def start_and_kill(condition):
        """Looks every millisecond whether the condition holds."""
        process, first = start("killed"), newest_step(run)
        while not condition(first):
            process.check_running()
            time.sleep(0.001)
        process.kill()

    at = random.randrange(1, STEPS // 3)
    start_and_kill(lambda _: newest_step(run) >= at)
    for _ in range(5):
        start_and_kill(lambda first: newest_step(run) > first and is_writing())
        if hit := is_writing():
            break
    assert hit, "no kill hit the writing of a checkpoint"
    assert at < newest_step(run) < STEPS, "killed before the end"
    assert f"Continuing from {run}/model.ckpt-" in start("killed").said()
    assert not list(run.glob("*_temp"))
    start("whole").said()
    whole, killed = (
        everything_in(tmp_path / name / f"model.ckpt-{STEPS}") for name in ("whole", "killed")
    )
    np.testing.assert_array_equal(killed, whole)
