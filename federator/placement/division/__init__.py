"""How many copies each cluster gets: arithmetic over a fixed set of clusters."""
