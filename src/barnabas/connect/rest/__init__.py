"""The REST API of a worker: what users and other workers ask over HTTP."""
