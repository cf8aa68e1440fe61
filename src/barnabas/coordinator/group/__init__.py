"""Groups and their offsets, kept in ``__consumer_offsets``.

``classic_group`` is the state machine; ``group_metadata_manager`` answers Join, Sync, Heartbeat and Leave;
``offset_metadata_manager`` holds committed offsets; ``group_coordinator`` is the facade over all partitions.
"""
