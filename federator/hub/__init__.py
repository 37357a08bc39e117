"""The hub: watches the host, places workloads, writes slices into members, folds what they report.
Floor 4."""
