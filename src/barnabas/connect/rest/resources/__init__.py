"""The handlers of the REST API's routes, a module for each kind of thing."""
