"""Faults that a sandbox can be given, one row each."""
