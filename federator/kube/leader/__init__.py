"""One leader at a time: the lease, the election, and the gate that only its holder passes."""
