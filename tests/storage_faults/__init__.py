"""Every kind of file under ``log.dirs`` x every fault that a disk or a person can do to it x how the node had ended.

``scene`` makes a directory, ``faults`` damages it, ``probe`` asks the node afterwards, ``matrix`` puts it together
and gives each cell a verdict. ``python -m tests.storage_faults --kind kafka`` records what a real Kafka 4.3.1 does.
"""
