"""The English-German grammar of the demo."""
