"""What every process needs besides its work: logs, memory limits, the status server."""
