"""What the hub publishes of its product: how long a change takes to reach pods, and the figures of
workloads, quotas and clusters."""
