"""A receive buffer shared by all connections of a thread.

Received bytes are copied out, or passed to OpenSSL, before another connection of the thread receives. Clients in other
threads have their own event loops, and receive at the same time.
"""

from __future__ import annotations

import threading

__all__ = ["ReceiveMemory"]


class ReceiveMemory(threading.local):
    def __init__(self, size: int) -> None:
        self.view = memoryview(bytearray(size))
