"""The settings of a node, a table for each area."""
