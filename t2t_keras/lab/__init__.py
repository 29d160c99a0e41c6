"""Tools to analyse models: comparison, attention, plots, and filters by a model's scores."""
