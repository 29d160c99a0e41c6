"""What the profiles share: flags that say which model is looked at, and its training step."""

from absl import flags

from t2t_keras.environment import prepare_tensorflow

prepare_tensorflow()

_SET = flags.DEFINE_string("hparams_set", "transformer_base", "Hyperparameter set.")
_HPARAMS = flags.DEFINE_string("hparams", "", "What differs from the set.")
VOCAB_SIZE = flags.DEFINE_integer("vocab_size", 32_000, "Ids of the shared vocabulary.")


def hparams():
    """Returns the hyperparameters that the flags name."""
    from t2t_keras import registry

    return registry.hparams(_SET.value, _HPARAMS.value)


def new_step():
    """Returns the trainer's step on one CPU device, with a new model."""
    import tensorflow as tf

    from t2t_keras.models.transformer import Transformer
    from t2t_keras.training.tensorflow_step import TensorFlowStep

    return TensorFlowStep(
        lambda: Transformer.from_hparams(hparams(), VOCAB_SIZE.value),
        hparams(),
        tf.distribute.MirroredStrategy(["/cpu:0"]),
        seed=1,
    )
