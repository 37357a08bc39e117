"""One connection to a member: its credentials, its probes, and what is read through it."""
