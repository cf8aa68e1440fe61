"""The console: a worker's pages for people, beside the REST API for programs."""
