"""What a member process remembers of its cluster: rows made of objects, and the caches that hold
them."""
