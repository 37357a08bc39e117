"""Deciding: batches of workloads become PlacementDecisions."""
