"""Faults that take a while: something befalls a world, and ends."""
