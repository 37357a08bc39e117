"""How much room the cluster has: nodes, pods, and the ClusterCapacity report."""
