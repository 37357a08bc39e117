"""`federator cluster`: members join, are examined, and leave."""
