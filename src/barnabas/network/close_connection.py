"""The exception by which a handler closes a connection."""

__all__ = ["CloseConnection"]


class CloseConnection(Exception):
    """The peer violated the protocol: the reason is logged with the peer's name and the connection closes."""
