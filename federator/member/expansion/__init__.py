"""From slices to native objects: what must be made, changed and deleted, and the turn that does
it."""
