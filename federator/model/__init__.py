"""Floor 0: frozen values used everywhere. Nothing here awaits, logs, reads a clock or talks to an
API server."""
