"""Commands that follow and change what runs: rollout, wait, rebalance, pause."""
