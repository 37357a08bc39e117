"""Rows and columns as `kubectl get` shows them."""
