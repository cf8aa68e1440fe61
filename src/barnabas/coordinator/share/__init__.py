"""The share coordinator: the state of share-partitions (KIP-932), on ``__share_group_state``."""
