"""Workflows of several commands, for Snakemake."""
