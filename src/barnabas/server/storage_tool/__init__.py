"""What ``barnabas storage`` does to a node's directories."""
