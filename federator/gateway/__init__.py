"""The submission gateway: reviewed versions of workflows in, one verdict out."""
