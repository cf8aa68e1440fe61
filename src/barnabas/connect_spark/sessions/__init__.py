"""The Spark session of a worker: embedded, on a cluster, or remote."""
