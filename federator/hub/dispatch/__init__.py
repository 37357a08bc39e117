"""Writing decisions into members as slices, step by step."""
