"""What pages are made from: the host's objects, rights, the leader, Prometheus, reports."""
