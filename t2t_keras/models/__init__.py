"""Models assembled from the layers."""
