"""A port for a server that starts, stops and starts again, without another process taking it in between.

The port is bound here and never listened on. On Linux two sockets with SO_REUSEADDR may be bound to one port while at
most one of them listens, so the server binds it too. While the server is down, connections are refused, as those to a
dead process. The system gives a bound port to no other process: neither to a server on port 0 nor to a client.

Other systems refuse the second socket, so there the port is released at the first start.
"""

from __future__ import annotations

import socket
import sys
import weakref

__all__ = ["HOST", "HeldPort"]

HOST = "127.0.0.1"


class HeldPort:
    """Release the port after the last use of the server. It is released at the latest with this object."""

    def __init__(self) -> None:
        self._socket = socket.socket()
        weakref.finalize(self, self._socket.close)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((HOST, 0))
        except OSError:
            self._socket.close()
            raise
        self.number: int = self._socket.getsockname()[1]

    @property
    def address(self) -> str:
        return f"{HOST}:{self.number}"

    def give_to_server(self) -> None:
        """Make it possible for a server to bind the port now."""
        if sys.platform != "linux":
            self._socket.close()

    def close(self) -> None:
        self._socket.close()
