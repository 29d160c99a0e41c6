"""Text as it comes: files, formats, archives, and the vocabulary that turns it into ids."""
