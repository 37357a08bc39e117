"""What would place more: changes of objects on the host, each tried by the engine before anybody is told of it."""
