"""Glossaries: matching, hints, checking of translations, forcing of missing terms."""
