"""What a command returns: tables, documents, advice, progress, exit statuses."""
