"""What the hub decided and saw change, kept as lines of JSON in files beside it."""
