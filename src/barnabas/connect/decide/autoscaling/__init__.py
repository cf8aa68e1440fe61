"""How many tasks a sink has, by its lag. Pure: no socket, no clock."""
