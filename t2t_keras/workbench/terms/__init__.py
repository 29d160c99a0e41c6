"""Terms in text: hints, what became of terms, where a missing one belongs."""
