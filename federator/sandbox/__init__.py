"""A whole federation in one process, on embedded API servers, in real or virtual time."""
