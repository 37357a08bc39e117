"""Advice on what would place more: changes of objects on the host, each tried by the engine before
it is shown."""
