"""Members of groups whose coordinator assigns the partitions (KIP-848, KIP-932). What they decide, without I/O.

Time comes in as milliseconds, answers as messages, and the caller's work as calls. What to send and what the caller has
to release or begin come out.
"""
