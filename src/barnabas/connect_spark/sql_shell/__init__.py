"""The Spark of `barnabas sql`: a session of its own, queries that end, and errors in plain English."""
