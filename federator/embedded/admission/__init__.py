"""What the default admission plugins of an API server add to objects, and refuse."""
