"""Server-side assignors: which member of a group reads which partitions, or runs which tasks. Results equal Kafka's.

``group_spec`` defines their input and output, ``assignors`` finds an assignor by its name. Streams groups have a task
assignor (``task_group_spec``, ``sticky_tasks``).
"""
