"""Workloads that wait: what is kept for them, and when they may be expected to start."""
