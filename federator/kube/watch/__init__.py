"""Lists and watches of one collection, kept up to date in a store."""
