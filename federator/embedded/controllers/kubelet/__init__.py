"""Pods as the kubelet of each node would run them, and nodes that fall silent."""
