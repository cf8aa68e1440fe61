"""Errors of the data sources. Spark shows the text of the last one, behind its own words."""

from __future__ import annotations

from barnabas.pipelines.errors import PipelineError

__all__ = ["DamagedLog", "InvalidOption", "SourceUnavailable"]


class InvalidOption(PipelineError):
    """An option of ``spark.read`` is missing, unknown or has an invalid value."""


class SourceUnavailable(PipelineError):
    """The files or offsets that were requested don't exist, or can't be read."""


class DamagedLog(PipelineError):
    """A log or snapshot has damaged or missing batches, and the options refuse that."""
