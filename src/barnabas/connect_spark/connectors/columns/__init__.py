"""Columns of a DataFrame fitted to a table or a file."""
