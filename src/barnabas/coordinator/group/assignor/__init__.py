"""Server-side assignors: which member of a group reads which partitions or runs which tasks. Results equal Kafka's.

``group_spec`` has what they read, ``assignors`` finds one by its name. Streams groups have their own (``sticky_tasks``).
"""
