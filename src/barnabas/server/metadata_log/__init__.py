"""What follows a commit in the metadata log: publishers and snapshots."""
