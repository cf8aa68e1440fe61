"""A node under siege: a catalogue of hostile inputs, and the effect of each on a well-behaved client."""
