"""The broker's channel to the active controller, in the process or over the network."""
