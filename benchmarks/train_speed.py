"""Training speed on a kit of batches, as one JSON line that the kit compares with other toolkits.

    python benchmarks/train_speed.py --kit=../shared/bench/peers --config=tiny [--xla]
        [--compute_dtype=bfloat16]

The step is the trainer's own.
"""

import kit
from absl import app


def main(_) -> None:
    """Times the trainer's step on the kit's batches."""
    work = kit.workload()
    import tensorflow as tf

    from t2t_keras.data.batches import TokenArrays
    from t2t_keras.models.transformer import Transformer
    from t2t_keras.training.tensorflow_step import TensorFlowStep

    hparams = kit.hparams(work, dropout=work.DROPOUT, label_smoothing=work.LABEL_SMOOTHING)
    vocab_size = work.config(kit.CONFIG.value)["vocab"]
    step = TensorFlowStep(
        lambda: Transformer.from_hparams(hparams, vocab_size),
        hparams,
        tf.distribute.MirroredStrategy(["/cpu:0"]),
        seed=1,
        xla=kit.XLA.value,
    )
    # The kit fixes Adam's rate instead of following the schedule.
    step.schedule = lambda _: tf.constant(work.ADAM["lr"])
    done = 0

    def train(source, _, target) -> float:
        nonlocal done
        sums = step.update(done, [[TokenArrays(source, target)]])
        done += 1
        return float(sums["loss"]) / float(sums["tokens"])

    work.train(
        kit.name(),
        kit.CONFIG.value,
        train,
        parameters=step.model.count_params(),
        version=kit.version(),
    )


if __name__ == "__main__":
    app.run(main)
