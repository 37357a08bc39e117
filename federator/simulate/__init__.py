"""Capacity simulation: real or generated demand against a fleet, decided by the scheduling cycle of
the hub.
"""
