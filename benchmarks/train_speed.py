"""Training speed on a kit of batches, as one JSON line that the kit compares with other toolkits.

    python benchmarks/train_speed.py --kit=../shared/bench/peers --config=tiny [--xla]
        [--compute_dtype=bfloat16] [--cpu_replicas=2]

The step is the trainer's own.
"""

import kit
from absl import app, flags

_CPU_REPLICAS = flags.DEFINE_integer("cpu_replicas", 1, "As t2t-trainer has it.", lower_bound=1)


def main(_) -> None:
    """Times the trainer's step on the kit's batches."""
    work = kit.workload()
    import tensorflow as tf

    from t2t_keras.data.batches import TokenArrays
    from t2t_keras.models.transformer import Transformer
    from t2t_keras.training.devices import visible_devices
    from t2t_keras.training.tensorflow_step import TensorFlowStep

    replicas = _CPU_REPLICAS.value
    hparams = kit.hparams(work, dropout=work.DROPOUT, label_smoothing=work.LABEL_SMOOTHING)
    vocab_size = work.config(kit.CONFIG.value)["vocab"]
    step = TensorFlowStep(
        lambda: Transformer.from_hparams(hparams, vocab_size),
        hparams,
        tf.distribute.MirroredStrategy(visible_devices(0, replicas)),
        seed=1,
        xla=kit.XLA.value,
    )
    # The kit fixes Adam's rate instead of following the schedule.
    step.schedule = lambda _: tf.constant(work.ADAM["lr"])
    done = 0

    def train(source, _, target) -> float:
        nonlocal done
        parts = [
            TokenArrays(source[number::replicas], target[number::replicas])
            for number in range(replicas)
        ]
        sums = step.update(done, [parts])
        done += 1
        return float(sums["loss"]) / float(sums["tokens"])

    work.train(
        kit.name() + f"_{replicas}_replicas" * (replicas > 1),
        kit.CONFIG.value,
        train,
        parameters=step.model.count_params(),
        version=kit.version(),
    )


if __name__ == "__main__":
    app.run(main)
