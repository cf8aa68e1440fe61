"""Sockets, frames, and the path of a request from its bytes to its handler and back."""
