"""Files to topics and topics to files."""
