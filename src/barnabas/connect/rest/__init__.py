"""The REST API of a worker: requests of users and of other workers over HTTP."""
