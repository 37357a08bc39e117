"""Versions of workflows: fetched from a store by digest, checked for provenance, filled in.

`ports` has the values and the port to stores, `artifacts.Artifacts` is what the gateway calls.
"""
