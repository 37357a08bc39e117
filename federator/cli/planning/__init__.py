"""Commands of the capacity planner: simulate, sweep, headroom."""
