"""A share-partition: the delivery of one partition's records to the members of one share group (KIP-932).

The leader of the partition keeps this state in memory. Every decision that must survive it is returned as a write for
the persister; the state stays in transition until the persister has answered.
"""
