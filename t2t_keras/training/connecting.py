"""Connects the TensorFlow servers of all workers, while this process's other threads go on.

The call in which a worker waits for the others keeps Python's global lock in TensorFlow's binding.
The thread that hears when another worker ends could not run meanwhile; and where just that one was
waited for, this worker would wait for good.
"""

import contextlib
import ctypes
from collections.abc import Iterator
from pathlib import Path

import tensorflow as tf
from tensorflow.python import pywrap_tfe
from tensorflow.python.framework import errors


@contextlib.contextmanager
def others_run_while_connecting() -> Iterator[None]:
    """Has TensorFlow, started within the context, wait for other workers without Python's lock."""
    with_lock = pywrap_tfe.TFE_EnableCollectiveOps
    pywrap_tfe.TFE_EnableCollectiveOps = _enable_collective_ops
    try:
        yield
    finally:
        pywrap_tfe.TFE_EnableCollectiveOps = with_lock


def _enable_collective_ops(context, server: bytes) -> None:
    """Calls the function of this name in TensorFlow's library; ctypes lets go of the lock.

    Args:
      context: capsule of a TFE_Context.
      server: a serialised ServerDef.

    Raises:
      tf.errors.OpError: TensorFlow's server cannot be started, or not be connected.
    """
    (path,) = Path(tf.sysconfig.get_lib()).glob("libtensorflow_cc.*")
    library = ctypes.CDLL(str(path))
    library.TF_NewStatus.restype = ctypes.c_void_p
    library.TF_Message.restype = ctypes.c_char_p
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    status = ctypes.c_void_p(library.TF_NewStatus())
    try:
        library.TFE_EnableCollectiveOps(
            ctypes.c_void_p(pointer(context, None)), server, ctypes.c_size_t(len(server)), status
        )
        code = library.TF_GetCode(status)
        if code:
            message = library.TF_Message(status).decode("utf-8", "replace")
            raise errors.exception_type_from_error_code(code)(None, None, message)
    finally:
        library.TF_DeleteStatus(status)
