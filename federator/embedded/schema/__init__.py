"""Schemas of kinds: defaults, pruning, formats, OpenAPI."""
