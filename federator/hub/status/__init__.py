"""What members say becomes the status of workloads and MemberClusters."""
