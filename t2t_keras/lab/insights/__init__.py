"""What a model looks at: the attention of every layer and head, as a page and as figures."""
