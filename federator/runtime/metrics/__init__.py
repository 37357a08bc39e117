"""Metrics: the application's metrics with the labels of its identity, at a port of the sidecar."""
