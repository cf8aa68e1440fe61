"""The controller's side of a node: dispatcher, handlers, policies."""
