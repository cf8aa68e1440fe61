"""A node under siege: a catalogue of hostile inputs, and what a well-behaved client feels of each."""
