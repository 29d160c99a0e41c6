"""Run by test_jax_backend.py in a process of its own: the same numbers on JAX, without TensorFlow.

python jax_numbers.py config given.npz found.npz, of every model
"""

import json
import os
import sys

import numpy as np


def main(config, given_path, found_path):
    # Imported only now that the backend is chosen and TensorFlow is blocked.
    import jax

    from t2t_keras.models.transformer import Transformer
    from t2t_keras.training.optimizer import token_sums

    given = dict(np.load(given_path))
    batch = {side: given.pop(side) for side in ("source", "target")}
    model = Transformer.from_config(json.loads(config))
    model.build()
    states = [variable.value for variable in model.non_trainable_variables]

    def loss(weights):
        logits, _ = model.stateless_call(weights, states, batch)
        sums = token_sums(logits, batch["target"], label_smoothing=0.1)
        # Random numbers differ between backends; the test sees only that dropout works.
        trained, _ = model.stateless_call(weights, states, batch, training=True)
        return sums["loss"], (logits, sums, trained)

    computed = jax.jit(jax.value_and_grad(loss, has_aux=True))(list(given.values()))
    (_, (logits, sums, trained)), gradients = computed
    assert np.isfinite(trained).all()
    assert abs(trained - logits).max() > 1e-3
    np.savez(found_path, logits, *(sums[name] for name in sorted(sums)), *gradients)


if __name__ == "__main__":
    os.environ["KERAS_BACKEND"] = "jax"
    # As where it is not installed.
    sys.modules |= dict.fromkeys(("tensorflow", "tensorflow_text"))
    for model in zip(*(sys.argv[start::3] for start in (1, 2, 3)), strict=True):
        main(*model)
