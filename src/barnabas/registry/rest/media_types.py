"""The media types of the API: Confluent's, and plain JSON."""

from __future__ import annotations

__all__ = ["V1", "answer_type", "is_accepted_body"]

V1 = "application/vnd.schemaregistry.v1+json"
_ANSWERS = (V1, "application/vnd.schemaregistry+json", "application/json")
_BODIES = frozenset((*_ANSWERS, "application/octet-stream"))


def is_accepted_body(content_type: str | None) -> bool:
    """Return whether a body of this type can be read. Without a type it is taken for JSON."""
    return content_type is None or content_type.partition(";")[0].strip().lower() in _BODIES


def answer_type(accept: str | None) -> str | None:
    """Return the type of the answer by the weights of ``Accept``; None if the client accepts none."""
    if accept is None or not accept.strip():
        return V1
    best, best_weight = None, 0.0
    for media_range in accept.split(","):
        found, weight = _fitting(media_range.partition(";")[0].strip().lower()), _weight(media_range)
        if found is not None and weight > best_weight:
            best, best_weight = found, weight
    return best


def _fitting(media_range: str) -> str | None:
    if media_range in ("*/*", "application/*", "*"):
        return V1
    return media_range if media_range in _ANSWERS else None


def _weight(media_range: str) -> float:
    for parameter in media_range.split(";")[1:]:
        name, _, value = parameter.strip().partition("=")
        if name.lower() == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0
