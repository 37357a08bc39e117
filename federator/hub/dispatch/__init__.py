"""Decisions become slices in members, step by step."""
