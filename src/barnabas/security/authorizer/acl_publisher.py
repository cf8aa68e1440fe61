"""Feeds the authorizer from the metadata log: a snapshot at once, what follows rule by rule in the order of the log.

The order matters (authorizer.md A-15): a denial that was written before an allow must never be seen after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.metadata.image.metadata_image import MetadataDelta, MetadataImage
    from barnabas.metadata.publisher import LoaderManifest
    from barnabas.security.authorizer.authorizer import AclAuthorizer

__all__ = ["AclPublisher"]


class AclPublisher:
    """A MetadataPublisher. It does not say when the rules are complete: whoever knows the high watermark does."""

    def __init__(self, authorizer: AclAuthorizer) -> None:
        self._authorizer = authorizer

    def publish(self, delta: MetadataDelta, new_image: MetadataImage, manifest: LoaderManifest) -> None:
        if manifest.is_snapshot:
            self._authorizer.load_snapshot(dict(new_image.acls.by_id.items()))
            return
        if delta.acls is None:
            return
        before = delta.acls.image.by_id
        for acl_id, binding in delta.acls.changes.items():
            if acl_id in before:
                self._authorizer.remove_acl(acl_id)
            if binding is not None:
                self._authorizer.add_acl(acl_id, binding)
