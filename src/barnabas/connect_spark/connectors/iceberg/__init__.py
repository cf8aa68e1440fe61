"""Topics to Iceberg tables."""
