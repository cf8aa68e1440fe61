"""SASL: each mechanism a small state machine, bytes in, bytes out."""
