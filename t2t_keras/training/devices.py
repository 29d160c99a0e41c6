"""Which devices a run uses."""

import tensorflow as tf

from t2t_keras.errors import UserError


def visible_devices(worker_gpu: int | None = None) -> list[str]:
    """Returns the devices to train on.

    Args:
      worker_gpu: number of GPUs; None = all that are visible, 0 = the CPU.

    Returns:
      ["/gpu:0", ...], or ["/cpu:0"] where there is no GPU.

    Raises:
      UserError: more GPUs are asked for than there are.
    """
    present = len(tf.config.list_logical_devices("GPU"))
    count = present if worker_gpu is None else worker_gpu
    if count > present:
        raise UserError(
            f"--worker_gpu={worker_gpu}: TensorFlow sees {present} GPUs. Give a smaller number, or "
            f"leave the flag out to use all of them (the CPU where there is none)."
        )
    return [f"/gpu:{number}" for number in range(count)] or ["/cpu:0"]
