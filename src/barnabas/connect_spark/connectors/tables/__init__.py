"""Topics to tables whose commits contain data and positions: what Delta Lake and Iceberg share."""
