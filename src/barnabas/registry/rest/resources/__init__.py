"""The paths of the REST API, one module for each subject, with the routes beside their handlers."""
