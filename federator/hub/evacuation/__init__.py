"""Evacuation: drains, failover, failback, maintenance windows, and drills."""
