"""The commands of this wing."""
