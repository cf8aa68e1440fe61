"""Feeds the authorizer from the metadata log: a snapshot as a whole, later rules one by one in the order of the log.

The order matters: a denial that was written before an allow must never be seen after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from barnabas.metadata.image.metadata_image import MetadataDelta, MetadataImage
    from barnabas.metadata.publisher import LoaderManifest
    from barnabas.security.authorizer.authorizer import AclAuthorizer

__all__ = ["AclPublisher", "rules_loaded"]


class AclPublisher:
    """A MetadataPublisher. The owner of the high watermark, not this class, determines when the rules are complete."""

    def __init__(self, authorizer: AclAuthorizer) -> None:
        self._authorizer = authorizer

    def publish(self, delta: MetadataDelta, new_image: MetadataImage, manifest: LoaderManifest) -> None:
        for _ in self.publish_in_steps(delta, new_image, manifest):
            pass

    def publish_in_steps(
        self, delta: MetadataDelta, new_image: MetadataImage, manifest: LoaderManifest
    ) -> Iterator[None]:
        """Apply the rules of a snapshot in steps. Those of a batch take effect together, in a single step."""
        if manifest.is_snapshot:
            yield from rules_loaded(self._authorizer, new_image)
            return
        if delta.acls is None:
            return
        before = delta.acls.image.by_id
        for acl_id, binding in delta.acls.changes.items():
            if acl_id in before:
                self._authorizer.remove_acl(acl_id)
            if binding is not None:
                self._authorizer.add_acl(acl_id, binding)


def rules_loaded(authorizer: AclAuthorizer, image: MetadataImage) -> Iterator[None]:
    """Load all rules of the image into the authorizer, in steps if it supports that."""
    from barnabas.security.authorizer.standard_authorizer import StandardAuthorizer

    acls = image.acls.by_id
    if type(authorizer) is StandardAuthorizer:  # A class derived from it may have a ``load_snapshot`` of its own.
        yield from authorizer.load_snapshot_in_steps(acls.items())
    else:
        authorizer.load_snapshot(dict(acls.items()))
