"""What is kept of each object: workloads, decisions, slices, tombstones. No I/O."""
