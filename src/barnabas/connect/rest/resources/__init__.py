"""The handlers of the REST API's routes, one module for each resource."""
