"""What a model computes must be probabilities, and leave a translation possible."""

import numpy as np

from t2t_keras.errors import UserError


def check_numbers(found: np.ndarray) -> None:
    """Raises `UserError` where log-probabilities or attention weights are NaN or infinite."""
    if not np.isfinite(found).all():
        raise UserError(
            "The model gives no probabilities (NaN or infinite): its weights are damaged, or its "
            "training had diverged. Use another checkpoint."
        )


def check_found(scores: np.ndarray) -> None:
    """Raises `UserError` where a line has no translation.

    Args:
      scores: float32 [lines, hypotheses], best first, -inf where there are fewer hypotheses.
    """
    if np.isnan(scores).any() or not np.isfinite(scores[:, 0]).all():
        raise UserError(
            "No translation is possible: every one holds what is forbidden, or the model gives no "
            "probabilities (NaN or infinite). Forbid less; or, if nothing is forbidden, use "
            "another checkpoint: this one's weights are damaged, or its training diverged."
        )
