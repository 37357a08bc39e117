"""What is said of placement on the host: policies, decisions and their verdicts."""
