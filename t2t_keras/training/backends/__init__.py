"""What differs between TensorFlow and JAX: the step, its devices, the curves."""
