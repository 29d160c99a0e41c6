"""A translator of random weights, its export, and a stand-in for TensorFlow Serving."""

from served_models import (  # noqa: F401
    connect,
    expected,
    export_ports,
    exported,
    lines,
    loaded,
    protocol,
    served,
    small_translator,
    translator,
)
