"""Record histories of clients during faults of real processes, and check them against the guarantees."""
