"""Models of other toolkits as runs; an importer reads one toolkit's files."""

from t2t_keras.registry import Registry

# By the toolkit's name, functions of a model's path that return an `Imported`. They may also take
# `languages`, `vocabulary`, `target_space` and `changes`, as `read_model` does.
IMPORTERS = Registry("importer")
