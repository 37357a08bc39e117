"""Probes of clusters with workloads of the hub's own."""
