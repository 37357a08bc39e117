"""One scheduling cycle: who of those that are due gets what, in which order that is written, and who waits for what."""
