"""Deciding: from batches of workloads to PlacementDecisions."""
