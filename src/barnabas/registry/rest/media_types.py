"""The media types of the API: Confluent's, and plain JSON."""

from __future__ import annotations

from barnabas.connect.rest.media_types import weight_of

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
        found, weight = _fitting(media_range.partition(";")[0].strip().lower()), weight_of(media_range)
        if found is not None and weight > best_weight:
            best, best_weight = found, weight
    return best


def _fitting(media_range: str) -> str | None:
    if media_range in ("*/*", "application/*", "*"):
        return V1
    return media_range if media_range in _ANSWERS else None
