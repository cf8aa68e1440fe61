"""NEXMark's queries 0 to 8: as pipelines, as queries on PySpark written by hand, and as batch SQL."""
