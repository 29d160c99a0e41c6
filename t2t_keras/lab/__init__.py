"""Looking at models: comparison, attention pages, plots, filters learned from a model."""
