"""The raft driver of a node, its channel to other controllers, and recovery."""
