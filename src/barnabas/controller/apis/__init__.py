"""One module per API that the controller answers."""
