"""``barnabas reassign`` and ``cluster rebalance|drain``: replicas that move between brokers."""
