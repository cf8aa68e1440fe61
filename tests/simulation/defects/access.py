"""Defects in access decisions, and in the conditions under which a node may decide."""

from __future__ import annotations

from typing import Any

from barnabas.security.authorizer.authorizer import AllowAllAuthorizer
from tests.simulation.cluster.defects import defect, replace_in


@defect("publishers-turned-round", "other publishers receive an image before the authorizer")
def _() -> None:
    def make(original: Any) -> Any:
        def publish(self: Any, *, is_snapshot: bool) -> Any:
            before = self._publishers
            self._publishers = before[::-1]
            try:
                yield from original(self, is_snapshot=is_snapshot)
            finally:
                self._publishers = before

        return publish

    replace_in("metadata.loader", "MetadataLoader._publish_in_steps", make)


@defect("rule-removal-not-published", "the authorizer does not learn that an ACL was removed")
def _() -> None:
    def make(original: Any) -> Any:
        def publish(self: Any, delta: Any, new_image: Any, manifest: Any) -> Any:
            if manifest.is_snapshot or delta.acls is None:
                yield from original(self, delta, new_image, manifest)
                return
            for acl_id, binding in delta.acls.changes.items():
                if binding is not None:
                    self._authorizer.add_acl(acl_id, binding)

        return publish

    replace_in("security.authorizer.acl_publisher", "AclPublisher.publish_in_steps", make)


@defect("rules-of-a-snapshot-added-only", "a snapshot adds ACLs to the authorizer and removes none")
def _() -> None:
    def make(original: Any) -> Any:
        def load(self: Any, acls: Any) -> Any:
            yield from original(self, {**self._index.rules_by_id, **dict(acls)}.items())

        return load

    replace_in("security.authorizer.standard_authorizer", "StandardAuthorizer.load_snapshot_in_steps", make)


@defect("decision-kept-too-long", "cached decisions are kept when an ACL is added")
def _() -> None:
    def make(original: Any) -> Any:
        def add(self: Any, acl_id: Any, binding: Any) -> None:
            forget, type(self)._forget = type(self)._forget, lambda *args, **options: None
            try:
                original(self, acl_id, binding)
            finally:
                type(self)._forget = forget

        return add

    replace_in("security.authorizer.acl_index", "AclIndex.add", make)


@defect("decision-kept-after-removal", "cached decisions are kept when an ACL is removed")
def _() -> None:
    def make(original: Any) -> Any:
        def remove(self: Any, acl_id: Any) -> Any:
            forget, type(self)._forget = type(self)._forget, lambda *args, **options: None
            try:
                return original(self, acl_id)
            finally:
                type(self)._forget = forget

        return remove

    replace_in("security.authorizer.acl_index", "AclIndex.remove", make)


@defect("prefix-not-forgotten", "a change of a prefixed ACL affects only names that were never checked before")
def _() -> None:
    def make(original: Any) -> Any:
        def forget(self: Any, resource_type: int, pattern_type: int, name: str) -> None:
            if pattern_type != 4:
                original(self, resource_type, pattern_type, name)

        return forget

    replace_in("security.authorizer.acl_view", "AclView.forget", make)


@defect("allow-wins", "an ACL that allows takes precedence over one that denies")
def _() -> None:
    def make(original: Any) -> Any:
        def effective(raw: int) -> int:
            mask: int = original(raw & 0xFFFF)
            return mask

        return effective

    replace_in("security.authorizer.acl_index", "effective", make)


@defect("decides-while-loading", "an authorizer becomes ready with the first records that its node has fetched")
def _() -> None:
    replace_in(
        "raft.raft_node",
        "RaftNode.known_high_watermark",
        lambda original: property(lambda self: self._log.high_watermark),
    )


@defect("ready-from-the-start", "an authorizer reports immediately that it is ready, before it has any ACLs")
def _() -> None:
    def make(original: Any) -> Any:
        def build(self: Any) -> None:
            original(self)
            self.is_loaded = True

        return build

    replace_in("security.authorizer.standard_authorizer", "StandardAuthorizer.__init__", make)


@defect("forwarded-as-the-broker", "a client's request is authorized with the rights of the broker")
def _() -> None:
    def make(original: Any) -> Any:
        async def forward(self: Any, request: Any, context: Any) -> Any:
            return await self._call(request, context, AllowAllAuthorizer())

        return forward

    replace_in("server.controller_channel.in_process", "InProcessChannel.forward", make)
