"""Member clusters of a simulation: single nodes, the copies on them, and what they report."""
