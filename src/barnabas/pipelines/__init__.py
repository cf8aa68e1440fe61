"""PySpark analytics over topics. Spark's executors import this package, so it must never import a server."""
