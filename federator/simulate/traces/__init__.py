"""Demand and nodes from files: scenario folders, Standard Workload Format, openb lists.

The interface is `loading.works(path, columns, tolerated=..., format=...)` and
`nodes.table(path, ...)`: rows and `Problems`. Rows that cannot be read are left out, counted and
named by file, row and field; more than the tolerated share of them is a `TraceError`.
"""
