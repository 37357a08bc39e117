"""Reading from and writing to the host: watches, whole objects, revisions, decisions, Events."""
