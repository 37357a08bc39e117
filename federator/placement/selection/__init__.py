"""Which clusters take part in a decision, and who leaves one."""
