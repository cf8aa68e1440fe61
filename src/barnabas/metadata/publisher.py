"""The port through which an image reaches those who act on it."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from barnabas.metadata.image.metadata_image import MetadataDelta, MetadataImage, MetadataProvenance

__all__ = ["LoaderManifest", "MetadataPublisher"]


class LoaderManifest(NamedTuple):
    """Where a publication comes from: some committed batches, or a snapshot that replaced everything."""

    provenance: MetadataProvenance
    is_snapshot: bool
    batch_count: int = 0
    byte_count: int = 0


class MetadataPublisher(Protocol):
    """Called in order, once per publication, by the loader that it was installed in.

    ``new_image`` is complete when the call is made; ``delta`` says what differs from the image of the
    previous call. A publisher that joins late gets everything as one snapshot delta from an empty image.
    """

    def publish(self, delta: MetadataDelta, new_image: MetadataImage, manifest: LoaderManifest) -> None: ...
