"""Imports models of other toolkits as runs; each importer reads the files of one toolkit."""

from t2t_keras.registry import Registry

# By the toolkit's name: functions that take a model's path and return an `Imported`. They may also
# take `languages`, `vocabulary`, `target_space` and `changes`; see `read_model`.
IMPORTERS = Registry("importer")
