"""Several workers that train one model together."""
