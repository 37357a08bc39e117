"""CEL expressions over clusters: read and checked when a policy is read, evaluated per cluster."""
