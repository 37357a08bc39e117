"""The scheduling cycle: what each due workload gets, the write order, and what inadmissible
workloads wait for."""
