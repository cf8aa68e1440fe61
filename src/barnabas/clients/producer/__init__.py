"""A producer: it collects records in batches, and sends these to their leaders, with several requests in flight."""
