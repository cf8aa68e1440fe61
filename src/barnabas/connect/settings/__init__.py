"""Settings of a worker, and the definition of a plugin's settings."""
