"""Finds the error codes in a response, at any depth, for the counters of errors by API.

The places of fields named ``error_code`` (or ``partition_error_code``, in AddPartitionsToTxn) are determined once per
API, from the declaration of its response.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from barnabas.protocol.schema import Struct

__all__ = ["ResponseErrors"]

_NAMES = ("error_code", "partition_error_code")


class ResponseErrors:
    """The places of error codes in a response type, or in an element of its lists."""

    __slots__ = ("_lists", "_own", "_type")

    def __init__(self, response_type: type[Struct]) -> None:
        self._type = response_type
        self._own = next((field.name for field in response_type.FIELDS if field.name in _NAMES), None)
        self._lists: list[tuple[str, ResponseErrors]] = []
        for field in response_type.FIELDS:
            if field.kind == "array" and field.type is not None:
                nested = ResponseErrors(field.type)
                if nested:
                    self._lists.append((field.name, nested))

    def __bool__(self) -> bool:
        return self._own is not None or bool(self._lists)

    def of(self, response: object) -> list[int]:
        """Yield every code but 0; for a response that is encoded already only its top-level code."""
        found: list[int] = []
        if type(response) is self._type:
            self._collect(response, found)
        elif code := getattr(response, "error_code", 0):
            found.append(code)
        return found

    def _collect(self, part: Any, found: list[int]) -> None:
        if self._own is not None and (code := getattr(part, self._own)):
            found.append(code)
        for name, nested in self._lists:
            for element in getattr(part, name) or ():
                nested._collect(element, found)
