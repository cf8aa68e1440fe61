"""Errors of a pipeline, shown to the person who started it."""

from __future__ import annotations

from barnabas.common.errors import Terminal

__all__ = ["PipelineError"]


class PipelineError(Exception, Terminal):
    """The pipeline can't continue. The text says what is wrong and what to do next, and needs no traceback."""
