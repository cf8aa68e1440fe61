"""The work of ``barnabas storage`` on a node's directories."""
