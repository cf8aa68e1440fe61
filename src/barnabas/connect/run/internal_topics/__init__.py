"""The config, offset and status topics: read, written and followed."""
