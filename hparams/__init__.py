"""The registered hyperparameter sets."""
