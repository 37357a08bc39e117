"""The event engine: `run.run(inputs)` plays a demand against a fleet, decided by the scheduling
cycle.
"""
