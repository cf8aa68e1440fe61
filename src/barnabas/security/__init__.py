"""Authentication and authorization: identifies callers and decides what they may do."""
