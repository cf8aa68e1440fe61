"""``barnabas produce`` and ``barnabas consume``: write records from a pipe or a file, and read them."""
