"""How a handler says that a connection has to close."""

__all__ = ["CloseConnection"]


class CloseConnection(Exception):
    """The peer broke the protocol: the reason is logged with the peer's name and the connection closes."""
