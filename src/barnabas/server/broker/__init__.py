"""The broker's side of a node: replica fetchers and log directories."""
