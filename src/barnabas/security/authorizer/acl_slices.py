"""Returns many rules in Kafka's order, a slice at a time.

Sorting 250,000 rules in one call takes a tenth of a second, during which no client is served. So it is done in steps:
runs of a few thousand rules are sorted, cut at the same keys, and the rules between two cuts are merged. Between two
slices, which may be empty, the work is bounded by some thousand rules.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import groupby
from operator import itemgetter
from struct import unpack
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from barnabas.common.acl import AclBinding, AclBindingFilter

__all__ = ["SLICE", "in_order", "scan_order", "utf16_order"]

SLICE: Final = 1_024
"""The approximate number of rules in a slice."""

_RUN: Final = 2_048
"""Rules that are sorted in one call."""

_SAMPLED: Final = 64
"""The sampling interval: every n-th rule of a run is a sample, and every n-th sample is a cut."""

_type_of: Callable[[AclBinding], int] = itemgetter(0)
_name_of: Callable[[AclBinding], str] = itemgetter(1)


def scan_order(binding: AclBinding) -> tuple[int, str, str, int]:
    """Sorts the rules of one pattern as Kafka does."""
    return binding.operation, utf16_order(binding.principal), utf16_order(binding.host), binding.permission


def utf16_order(text: str) -> str:
    """Return a text that sorts as Java sorts ``text``: by UTF-16 code units, not by characters."""
    if text.isascii():
        return text
    units = text.encode("utf-16-be", "surrogatepass")
    return "".join(map(chr, unpack(f">{len(units) // 2}H", units)))


def in_order(bindings: Sequence[AclBinding], acl_filter: AclBindingFilter) -> Iterator[Sequence[AclBinding]]:
    """Yield the rules that match the filter; they must not change meanwhile. Slices may be empty."""
    by_type: dict[int, list[AclBinding]] = {}
    names_by_type: dict[int, set[str]] = {}
    not_ascii: set[int] = set()
    for start in range(0, len(bindings), _RUN):
        found = acl_filter.among(bindings[start : start + _RUN])
        for resource_type in set(map(_type_of, found)):
            part = [binding for binding in found if binding[0] == resource_type]
            by_type.setdefault(resource_type, []).extend(part)
            names = set(map(_name_of, part))
            if not all(map(str.isascii, names)):
                not_ascii.add(resource_type)
            some_names = names_by_type.setdefault(resource_type, names)
            if len(some_names) == 1:
                some_names |= names
        yield ()
    for resource_type in sorted(by_type):
        if len(names_by_type[resource_type]) == 1:
            yield from _of_one_name(by_type.pop(resource_type))
            continue
        key = _utf16_name if resource_type in not_ascii else _name_of
        for piece in _sorted_pieces(by_type.pop(resource_type), key, descending=True):
            yield from _with_names_in_order(piece)


def _with_names_in_order(bindings: Sequence[AclBinding]) -> Iterator[Sequence[AclBinding]]:
    """Yield slices of rules that are sorted by name already, and sort the rules of each name."""
    if len(bindings) > _RUN and bindings[0].name == bindings[-1].name:
        yield from _of_one_name(bindings)
        return
    part: list[AclBinding] = []
    for _, group in groupby(bindings, _name_of):
        same_name = list(group)
        if len(same_name) > _RUN:
            yield part
            part = []
            yield from _of_one_name(same_name)
            continue
        if len(same_name) > 1:
            same_name.sort(key=_order_within_name)
        part += same_name
        if len(part) >= SLICE:
            yield part
            part = []
    yield part


def _of_one_name(bindings: Sequence[AclBinding]) -> Iterator[Sequence[AclBinding]]:
    for piece in _sorted_pieces(bindings, _order_within_name, descending=False):
        for start in range(0, len(piece) or 1, SLICE):
            yield piece[start : start + SLICE]


def _utf16_name(binding: AclBinding) -> str:
    return utf16_order(binding[1])


def _order_within_name(binding: AclBinding) -> tuple[int, int, str, str, int]:
    _, _, pattern_type, principal, host, operation, permission = binding
    if not principal.isascii():
        principal = utf16_order(principal)
    return pattern_type, operation, principal, host if host.isascii() else utf16_order(host), permission


def _sorted_pieces(
    bindings: Sequence[AclBinding], key: Callable[[AclBinding], Any], *, descending: bool
) -> Iterator[Sequence[AclBinding]]:
    """Yield the sorted rules in consecutive pieces. Rules with the same key are in the same piece."""
    runs: list[list[AclBinding]] = []
    for start in range(0, len(bindings), _RUN):
        runs.append(sorted(bindings[start : start + _RUN], key=key, reverse=descending and len(bindings) <= _RUN))
        yield ()
    if len(runs) <= 1:
        yield from runs
        return
    samples = sorted(key(binding) for run in runs for binding in run[_SAMPLED::_SAMPLED])
    splitters = list(dict.fromkeys(samples[_SAMPLED::_SAMPLED]))
    cuts: list[list[int]] = []
    for run in runs:
        cuts.append([0, *(bisect_left(run, splitter, key=key) for splitter in splitters), len(run)])
        yield ()
    numbers = range(len(splitters) + 1)
    for number in reversed(numbers) if descending else numbers:
        piece: list[AclBinding] = []
        for run, cut in zip(runs, cuts, strict=True):
            piece += run[cut[number] : cut[number + 1]]
        piece.sort(key=key, reverse=descending)
        yield ()
        yield piece
