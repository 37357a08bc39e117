"""A plain apps/v1 Deployment, carried as it is."""
