"""What a worker runs: sockets, clocks and threads."""
