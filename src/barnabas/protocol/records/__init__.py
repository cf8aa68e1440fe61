"""Records of the metadata log, of raft, of the coordinators, and other versioned data."""
