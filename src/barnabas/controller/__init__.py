"""The active controller: decides what changes in the cluster's metadata."""
