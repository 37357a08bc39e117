"""What is read from the host and kept on it: watches, whole objects, revisions, decisions,
Events."""
