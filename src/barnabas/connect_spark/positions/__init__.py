"""Where a task continues: checkpoints, offsets of groups and of sources."""
