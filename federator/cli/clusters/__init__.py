"""`federator cluster`: joining, checking and removing members."""
