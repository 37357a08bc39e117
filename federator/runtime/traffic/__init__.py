"""Traffic: a pod is in the registry of its service exactly while it can serve."""
