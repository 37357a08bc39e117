"""What was heard and decided, and what follows from it: the state that all other rooms read."""
