"""How a broker reaches the active controller, in the process or over the network."""
