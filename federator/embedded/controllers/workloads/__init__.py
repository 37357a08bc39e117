"""Deployments, ReplicaSets, StatefulSets, DaemonSets and Jobs."""
