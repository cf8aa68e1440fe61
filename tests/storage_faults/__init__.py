"""Every kind of file under ``log.dirs`` x every fault that a disk or a person can cause x how the node had ended.

``content`` is what a node acknowledged, and in which files it is; ``faults`` damages a file or takes away what a node
needs for it; ``probe`` is the client that reads afterwards. ``scene`` tries cells, with one node (``alone``) or with
one of three nodes (``three``), and ``verdicts`` judges them. ``nodes`` starts nodes of ours or of a real Kafka 4.3.1.
"""
