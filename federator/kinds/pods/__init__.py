"""What the pods of a workload are made from, and what they need, whatever its kind."""
