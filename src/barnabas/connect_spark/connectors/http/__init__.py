"""Topics to HTTP servers."""
