"""Quota of a tree of accounts: which workloads get it, in which order and domain, and their
victims."""
