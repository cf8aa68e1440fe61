"""``barnabas queue``: topics as queues, by share groups (KIP-932)."""
