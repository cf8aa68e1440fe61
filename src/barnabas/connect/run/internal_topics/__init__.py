"""Read, write and follow the config, offset and status topics."""
