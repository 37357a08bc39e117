"""Which policies speak for a workload, and what operators demand of it."""
