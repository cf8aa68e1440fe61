"""JSON media types: whether a request has one (``Content-Type``), and whether it accepts the answer (``Accept``)."""

from __future__ import annotations

__all__ = ["accepts_json", "is_json", "weight_of"]


def is_json(content_type: str) -> bool:
    """Return whether it is ``application/json`` with any parameters, or a wildcard that includes it."""
    return _fits(content_type.partition(";")[0])


def accepts_json(accept: str | None) -> bool:
    """Return whether JSON is accepted. A missing header accepts anything; a range with weight 0 accepts nothing."""
    if accept is None or not accept.strip():
        return True
    return any(_fits(media_range.partition(";")[0]) and weight_of(media_range) > 0 for media_range in accept.split(","))


def _fits(media_range: str) -> bool:
    return media_range.strip().lower() in ("application/json", "application/*", "*/*", "*")


def weight_of(media_range: str) -> float:
    """Return the weight of a range in ``Accept``; 0 for an invalid one."""
    for parameter in media_range.split(";")[1:]:
        name, _, value = parameter.strip().partition("=")
        if name.lower() == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0
