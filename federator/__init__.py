"""federator: a multi-cluster federation control plane for Kubernetes workloads."""

__version__ = "0.1.0"
