"""Seeds of the dropout masks, from the step alone."""

import numpy as np


def dropout_seeds(seed: int, step: int, part: int, generators: int) -> np.ndarray:
    """Returns the state of each seed generator of a model for one part of one step.

    Masks differ between steps, between parts (replicas and microbatches) and between layers, and
    nothing of them needs to be kept in a checkpoint.

    Args:
      seed: the run's.
      step: the optimizer step, from 0.
      part: number of the part within the step; each replica's each microbatch has its own.
      generators: number of the model's seed generators.

    Returns:
      int64 [generators, 2], as Keras's `SeedGenerator` keeps its state.
    """
    sequence = np.random.SeedSequence([seed, step, part])
    return sequence.generate_state(2 * generators).astype(np.int64).reshape(generators, 2)
