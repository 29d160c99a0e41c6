"""Changes of the step on JAX, which `benchmarks/gpu.py --changes=NAME,...` measures.

A function gets the hyperparameters and returns those to use. It is called before the step is made,
in a process of its own, and may replace functions of the library there.
"""

import dataclasses

CHANGES = {
    "no dropout": lambda hparams: dataclasses.replace(hparams, dropout=0.0),
    "float32": lambda hparams: dataclasses.replace(hparams, compute_dtype="float32"),
}
