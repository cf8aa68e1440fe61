"""The decisions of a worker: pure, without I/O, clocks and randomness."""
