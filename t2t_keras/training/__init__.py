"""Loss, schedule, optimizer steps, checkpoints and the training loop."""
