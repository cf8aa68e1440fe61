"""Tables of the pipelines: Parquet on any file system that Spark writes to."""
