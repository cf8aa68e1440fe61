"""``barnabas reassign`` and ``cluster rebalance|drain``: move replicas between brokers."""
