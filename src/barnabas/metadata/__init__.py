"""The cluster's state as immutable values, and how committed records change it."""
