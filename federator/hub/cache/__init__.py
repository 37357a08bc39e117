"""What was read and decided, and what follows from it: the state that all other packages read."""
