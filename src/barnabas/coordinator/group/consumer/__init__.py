"""Groups of the consumer protocol (KIP-848): the coordinator computes assignments, and members reach them in steps."""
