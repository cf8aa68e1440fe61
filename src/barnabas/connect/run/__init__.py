"""The running parts of a worker: sockets, clocks and threads."""
