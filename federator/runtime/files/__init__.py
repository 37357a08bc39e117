"""What secrets and configuration of a pod have in common: lists, trees of files, failures of
backends."""
