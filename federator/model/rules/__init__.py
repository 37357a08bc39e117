"""What operators lay down for all workloads, as values."""
