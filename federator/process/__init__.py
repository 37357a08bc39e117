"""What every long-lived process needs: logs, memory settings, the status server."""
