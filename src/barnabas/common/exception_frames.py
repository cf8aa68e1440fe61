"""Errors that become responses to clients must not keep memory.

An error refers to the frames that it passed. These refer to their data: pieces of a batch, a decompressor with its
window, the request. When a frame also refers to the error, through a task or a future, all of this stays in memory
until the next full garbage collection, and a client that sends bad batches determines the amount.
"""

from __future__ import annotations

__all__ = ["forget_frames"]


def forget_frames(error: BaseException) -> None:
    """Drop the frames that ``error`` and its causes passed. Only for errors whose traceback is not logged."""
    link: BaseException | None = error
    while link is not None and link.__traceback__ is not None:
        link.__traceback__ = None
        link = link.__cause__ or link.__context__
