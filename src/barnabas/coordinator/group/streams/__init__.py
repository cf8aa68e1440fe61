"""Streams groups (KIP-1071): the coordinator knows the topology of an application and assigns its tasks to the members.

``topology`` is what the members send; ``internal_topic_manager`` compares it with the topics of the cluster and decides
how many tasks there are; ``current_assignment`` moves a member to its target assignment step by step.
"""
