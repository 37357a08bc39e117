"""Where a pod may run: fit, affinity, preemption, and the words when it may not."""
