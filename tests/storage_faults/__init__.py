"""Every kind of file under ``log.dirs`` x every fault that a disk or a person can cause x how the node ended before.

``content`` is the acknowledged data of a node, and its files. ``faults`` damages a file or removes what a node needs
for it. ``probe`` is the client that reads afterwards. ``scene`` runs cells, with one node (``alone``) or with one of
three nodes (``three``), and ``verdicts`` judges them. ``nodes`` starts nodes of ours or of a real Kafka 4.3.1.
"""
