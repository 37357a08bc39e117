"""What controllers run on: queues, lanes, the applier of steps, events, supervised tasks."""
