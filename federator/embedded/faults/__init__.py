"""Faults: one table of what can go wrong (`table.FAULTS`), and the ways in which it is done to a
simulated federation.

Used by simulation tests and campaigns, on virtual time only. Rows are data; who draws when they
happen, and to whom, is the nemesis of whoever runs the world.
"""
