"""Errors of a pipeline for the person that started it."""

from __future__ import annotations

from barnabas.common.errors import Terminal

__all__ = ["PipelineError"]


class PipelineError(Exception, Terminal):
    """The pipeline can't go on. The text says what is wrong and what to do next: it is shown without a traceback."""
