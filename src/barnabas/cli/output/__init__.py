"""Output of commands: tables, documents, advice, progress, exit statuses."""
