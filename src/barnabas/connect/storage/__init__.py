"""What a group of workers knows together: three compacted topics for connectors, their offsets and their states.

Records and what they amount to are decided without I/O; ``topic_log`` reads and writes the topics.
"""
