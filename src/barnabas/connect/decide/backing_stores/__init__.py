"""The state in the config, offset and status topics, and their records."""
