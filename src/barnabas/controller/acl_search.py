"""Searches many ACLs in steps, so that other requests are served meanwhile.

The result is that of one moment, the call of ``found``: the search visits the image that it began with, step by step,
and ``found`` then corrects the result for later changes in one step, whose cost grows with the changes. So a decision
based on it equals one that searched without delay.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from barnabas.common.acl import AclBinding, AclBindingFilter
from barnabas.common.long_response import LongAnswer
from barnabas.common.uuid import Uuid
from barnabas.metadata.image.acls import AclsImage, matching_rules

__all__ = ["AclSearch"]

_RULES_PER_STEP: Final = 8_192
"""Some milliseconds."""


class AclSearch(LongAnswer):
    __slots__ = ("_acls", "_filters", "_found", "_limit", "_seen", "_steps", "is_too_much")

    def __init__(self, acls: AclsImage, filters: Sequence[AclBindingFilter], *, limit: int) -> None:
        """Ends early when all filters together have found more than ``limit`` rules: see ``is_too_much``."""
        super().__init__()
        self._acls = acls
        self._filters = filters
        self._limit = limit
        self._found: list[dict[Uuid, AclBinding]] = [{} for _ in filters]
        self._seen: set[Uuid] = set()
        self._steps = self._search()
        self.is_too_much = False

    def advance(self) -> bool:
        return next(self._steps, None) is not None

    def found(self, now: AclsImage) -> list[Sequence[tuple[Uuid, AclBinding]]]:
        """Return each filter's matches in ``now``, which follows the searched image."""
        by_id = now.by_id
        touched = list(by_id.keys_not_shared_with(self._acls.by_id))
        results: list[Sequence[tuple[Uuid, AclBinding]]] = []
        for acl_filter, found in zip(self._filters, self._found, strict=True):
            here = {acl_id: binding for acl_id, binding in found.items() if by_id.get(acl_id) == binding}
            here.update(matching_rules(acl_filter, ((acl_id, by_id[acl_id]) for acl_id in touched)))
            results.append(list(here.items()))
        return results

    def _search(self) -> Iterator[bool]:
        for acl_filter, found in zip(self._filters, self._found, strict=True):
            if acl_filter.is_one_binding:
                found.update(self._acls.find(acl_filter))
                continue
            looked_at = 0
            for bucket in self._acls.by_id.buckets():
                found.update(matching_rules(acl_filter, bucket.items()))
                looked_at += len(bucket)
                if looked_at < _RULES_PER_STEP:
                    continue
                looked_at = 0
                if len(found) > self._limit:
                    self.is_too_much = True
                    return
                yield True
            self._seen.update(found)
            if len(self._seen) > self._limit:
                self.is_too_much = True
                return
            yield True
