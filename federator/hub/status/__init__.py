"""From members' reports to the status of workloads and MemberClusters."""
