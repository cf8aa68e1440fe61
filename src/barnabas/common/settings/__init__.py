"""Settings as rows of tables: of nodes, topics and groups."""
