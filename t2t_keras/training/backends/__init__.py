"""The parts that differ between TensorFlow and JAX: the step and its devices."""
