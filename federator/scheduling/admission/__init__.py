"""Who gets quota of a tree of accounts: in which order, in which domain, and who leaves for it."""
