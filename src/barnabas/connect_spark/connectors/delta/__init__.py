"""Topics to Delta tables."""
