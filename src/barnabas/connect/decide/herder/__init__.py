"""The herder: requests, rebalances, restarts and statuses."""
