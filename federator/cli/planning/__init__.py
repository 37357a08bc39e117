"""Commands that ask the engine about the whole fleet: simulate, sweep, headroom, drill,
rebalance."""
