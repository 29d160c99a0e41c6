"""SavedModels that take text and give text."""
