"""The lag of sinks behind the ends of their partitions, and rates of counters. Pure: no socket, no clock."""
