"""Importers, exporters and engines of other toolkits."""
