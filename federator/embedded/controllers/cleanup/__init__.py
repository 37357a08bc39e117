"""What goes when its owner, namespace or definition has gone."""
