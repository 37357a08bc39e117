"""Converts people's Kubernetes manifests to Pinterest workloads."""
