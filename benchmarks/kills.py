"""Kills a tiny training at random moments, and compares its ends with one that nobody killed.

python benchmarks/kills.py 200
"""

import multiprocessing
import os
import random
import sys
import tempfile
import time
from pathlib import Path

_STEPS = 60
# A checkpoint follows each step, so that many kills hit its writing.
_SETTINGS = (
    "--problem=algorithmic_reverse_binary40 --problem_config=train_size=300,dev_size=20 "
    "--generate_data --hparams_set=transformer_tiny --schedule=train --save_checkpoints_secs=0 "
    f"--hparams=d_ff=512,batch_tokens=300,max_length=64,train_steps={_STEPS} --worker_gpu=0"
).split()


def _train(run: Path) -> None:
    from t2t_keras.bin import t2t_trainer

    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    t2t_trainer.run(["", *_SETTINGS, f"--data_dir={run.parent / 'data'}", f"--output_dir={run}"])


def _ends(context, run: Path, kill_after: float | None = None) -> bool:
    process = context.Process(target=_train, args=(run,))
    process.start()
    process.join(kill_after)
    process.kill()
    process.join()
    assert process.exitcode in (0, -9), f"a training ended with status {process.exitcode}"
    return process.exitcode == 0


def _numbers(run: Path) -> dict[str, bytes]:
    import tensorflow as tf

    reader = tf.train.load_checkpoint(str(run / f"model.ckpt-{_STEPS}"))
    names = [name for name in reader.get_variable_to_shape_map() if "VARIABLE_VALUE" in name]
    return {name: reader.get_tensor(name).tobytes() for name in names if "counter" not in name}


if __name__ == "__main__":
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["t2t_keras.bin.t2t_trainer", "tensorflow"])
    with tempfile.TemporaryDirectory() as folder:
        runs, killed = [Path(folder) / "0", Path(folder) / "1"], 0
        for run in runs:  # The first one also waits until the server has imported TensorFlow.
            start = time.monotonic()
            _ends(context, run)
        longest = time.monotonic() - start
        while killed < int(sys.argv[1]):
            runs.append(Path(folder) / str(len(runs)))
            while not _ends(context, runs[-1], random.uniform(0, longest)):
                killed += 1
        assert all(_numbers(run) == _numbers(runs[0]) for run in runs), "not the same numbers"
        print(f"{killed} kills: all of {len(runs)} runs ended with the same numbers.")
