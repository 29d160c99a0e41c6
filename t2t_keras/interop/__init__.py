"""Models and engines of other toolkits: importers, exporters, CTranslate2."""
