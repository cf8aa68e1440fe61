"""The access audit: log lines and the audit topic."""
