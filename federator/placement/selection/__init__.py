"""Which clusters take part in a decision, and which workloads leave one."""
