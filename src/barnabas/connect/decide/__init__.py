"""What a worker decides: pure, without I/O, clocks and randomness."""
