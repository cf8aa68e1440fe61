"""Sockets, frames and the way of a request from its bytes to its handler and back."""
