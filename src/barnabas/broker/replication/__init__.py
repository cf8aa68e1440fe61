"""Partitions with several replicas: the state and decisions of leaders and followers, without I/O, clock or event
loop."""
