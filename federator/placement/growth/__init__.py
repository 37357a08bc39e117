"""Room that clusters can make: nodes that their autoscalers add for Pending pods."""
