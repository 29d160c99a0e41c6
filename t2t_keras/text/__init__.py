"""Text: files, formats, archives, vocabularies, sentences and word alignments."""
