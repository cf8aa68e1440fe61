"""Where a task goes on: checkpoints, offsets of groups and of sources."""
