"""The secrets that a pod reads with its certificate: files in memory that follow their versions."""
