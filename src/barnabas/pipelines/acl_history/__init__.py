"""The life of each ACL, from the metadata log: when it began, when it ended, and by which records."""
