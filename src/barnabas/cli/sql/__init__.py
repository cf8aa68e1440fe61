"""`barnabas sql`: a shell for SQL over topics, and for the pipelines of Connect workers."""
