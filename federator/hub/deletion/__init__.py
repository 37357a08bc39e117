"""Deletion: workloads, slices, clusters, and the proof that nothing is left."""
