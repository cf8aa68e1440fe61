"""Requests of brokers and controllers from those who are neither."""

from __future__ import annotations

__all__ = ["QUORUM"]

QUORUM = ()
