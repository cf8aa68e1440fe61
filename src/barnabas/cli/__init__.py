"""The ``barnabas`` command: one module per tool."""
