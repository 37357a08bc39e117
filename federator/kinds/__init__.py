"""Kinds of workloads: what each one is, a folder each, and the registry of every kind of the
federation.
"""
