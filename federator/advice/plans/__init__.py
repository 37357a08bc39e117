"""Plans: what edits of policies, quotas, clusters and workloads would come to, before anybody makes
them."""
