"""Decisions of workloads that hold nothing, where the best clusters are enough: in columns."""
