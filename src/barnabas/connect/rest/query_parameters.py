"""The parameters in the query of a request."""

from __future__ import annotations

from urllib.parse import parse_qs

from barnabas.connect.errors import BadRequest

__all__ = ["number_to", "query_parameters"]

_PARAMETERS_MAX = 100


def query_parameters(text: str) -> dict[str, list[str]]:
    """Return the values of each parameter. Raise BadRequest."""
    try:
        return parse_qs(text, keep_blank_values=True, max_num_fields=_PARAMETERS_MAX)
    except ValueError:
        raise BadRequest(f"The query has more than {_PARAMETERS_MAX} fields.") from None


def number_to(highest: int, name: str, text: str | None, default: int) -> int:
    """Return the number of a parameter, from 1 to ``highest``; the default without one. Raise BadRequest."""
    if text is None:
        return default
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0  # A long text costs time.
    if not 0 < number <= highest:
        raise BadRequest(f"{name!r} is {text[:50]!r}; it must be 1 to {highest}")
    return number
