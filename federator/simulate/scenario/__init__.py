"""Scenarios: a YAML file that names fleet, demand, rules and events becomes the inputs of a
simulation.
"""
