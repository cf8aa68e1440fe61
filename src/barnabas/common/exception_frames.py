"""Errors that are answers to clients must not keep memory.

An error refers to the frames that it passed, and these to whatever they worked on: pieces of a batch, a decompressor
with its window, the request. When a frame also refers to the error, through a task or a future, all of that stays until
the next full garbage collection, and a client that sends bad batches decides how much it is.
"""

from __future__ import annotations

__all__ = ["forget_frames"]


def forget_frames(error: BaseException) -> None:
    """Drop the frames that ``error`` and its causes passed. Only for errors whose traceback is not logged."""
    link: BaseException | None = error
    while link is not None and link.__traceback__ is not None:
        link.__traceback__ = None
        link = link.__cause__ or link.__context__
