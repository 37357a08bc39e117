"""The hub: watches the host, places workloads, writes slices into members, folds their reports.
Floor 6."""
