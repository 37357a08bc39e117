"""Logs: the sidecar prints files that the application writes, with the labels of the workload."""
