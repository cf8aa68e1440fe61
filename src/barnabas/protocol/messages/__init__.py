"""One module per API: the listing of this folder is the list of what we can speak."""
