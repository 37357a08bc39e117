"""What the hub decided and observed, as lines of JSON in files beside it."""
