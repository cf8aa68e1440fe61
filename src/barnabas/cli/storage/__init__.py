"""``barnabas storage``: format, inspect and repair log directories."""
