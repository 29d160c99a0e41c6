"""Run by test_jax_backend.py in a process of its own: the same numbers on JAX, without TensorFlow.

python jax_numbers.py given.npz found.npz, of every model
"""

import os
import sys

import numpy as np


class _NoTensorFlow:
    """Makes every import of TensorFlow fail, as where it is not installed."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0].startswith("tensorflow"):
            raise ModuleNotFoundError(f"No module named {name!r} (blocked by the test)", name=name)


def main(given_path, found_path):
    # Imported only now that the backend is chosen and TensorFlow is blocked.
    import jax
    import keras

    from t2t_keras.models.transformer import Transformer
    from t2t_keras.training.optimizer import token_sums

    given = dict(np.load(given_path))
    shape = {name.partition("/")[2]: int(given[name]) for name in given if name.startswith("shape")}
    model = Transformer(**shape, symbol_dropout=0.5, attention_dropout=0.5, name="transformer")
    model.build()
    batch = {"source": given["source"], "target": given["target"]}
    states = [v.value for v in model.non_trainable_variables]

    def loss(trainable):
        logits, _ = model.stateless_call(trainable, states, batch)
        sums = token_sums(logits, batch["target"], label_smoothing=0.1)
        # Random numbers differ between backends; the test sees only that dropout works.
        trained, _ = model.stateless_call(trainable, states, batch, training=True)
        return sums["loss"], (logits, sums, trained)

    weights = [given[weight.path] for weight in model.trainable_variables]
    (_, (logits, sums, trained)), gradients = jax.jit(jax.value_and_grad(loss, has_aux=True))(
        weights
    )
    assert np.isfinite(trained).all()
    assert abs(trained - logits).max() > 1e-3
    found = {"logits": logits, **{f"sums/{name}": value for name, value in sums.items()}}
    for weight, gradient in zip(model.trainable_variables, gradients, strict=True):
        found[f"gradient/{weight.path}"] = gradient
    assert keras.backend.backend() == "jax"
    assert not [name for name in sys.modules if name.partition(".")[0] == "tensorflow"]
    np.savez(found_path, **{name: np.asarray(value) for name, value in found.items()})


if __name__ == "__main__":
    os.environ["KERAS_BACKEND"] = "jax"
    sys.meta_path.insert(0, _NoTensorFlow())
    for files in zip(sys.argv[1::2], sys.argv[2::2], strict=True):
        main(*files)
