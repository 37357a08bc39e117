"""What the kinds with a schema of ours have in common."""
