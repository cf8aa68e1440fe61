"""Tasks as streaming queries."""
