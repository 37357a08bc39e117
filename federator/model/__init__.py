"""Floor 0: frozen values everybody speaks in. Nothing here waits, logs, reads a clock or knows an API server."""
