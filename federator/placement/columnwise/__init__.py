"""Decisions over columns: for workloads that hold nothing, where the best clusters are enough."""
