"""Translates documents of many formats: reads their texts and writes the translations back."""

from t2t_keras.workbench.documents.document import (
    EXTENSIONS,
    Document,
    Unit,
    read_document,
    translated_name,
)
from t2t_keras.workbench.documents.translating import Report, TranslationMemory, translate_document

__all__ = [
    "EXTENSIONS",
    "Document",
    "Report",
    "TranslationMemory",
    "Unit",
    "read_document",
    "translate_document",
    "translated_name",
]
