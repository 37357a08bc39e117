"""The snapshot worker: a process next to the leading hub that holds a copy of what decisions depend
on, and computes plans and what-if answers on it."""
