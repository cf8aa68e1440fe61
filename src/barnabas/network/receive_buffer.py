"""Memory to receive into, one piece for all connections of a thread.

What is received is cut out of it, or goes on to OpenSSL, before anybody else in the thread receives. Clients in other
threads have event loops of their own, and receive at the same time.
"""

from __future__ import annotations

import threading

__all__ = ["ReceiveMemory"]


class ReceiveMemory(threading.local):
    def __init__(self, size: int) -> None:
        self.view = memoryview(bytearray(size))
