"""Share-partitions on their leader: what members of share groups fetch and acknowledge (KIP-932)."""
