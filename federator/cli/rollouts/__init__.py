"""Commands that follow and change running workloads: rollout, wait, pause."""
