"""The port of publishers, which receive each new image."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from barnabas.metadata.image.metadata_image import MetadataDelta, MetadataImage, MetadataProvenance

__all__ = ["LoaderManifest", "MetadataPublisher", "published_in_steps"]


class LoaderManifest(NamedTuple):
    """The origin of a publication: some committed batches, or a snapshot that replaced everything."""

    provenance: MetadataProvenance
    is_snapshot: bool
    batch_count: int = 0
    byte_count: int = 0


class MetadataPublisher(Protocol):
    """Called in order, once per publication, by the loader that it was installed in.

    ``new_image`` is complete when the call is made; ``delta`` has the differences from the image of the
    previous call. A publisher that joins late receives everything as one snapshot delta from an empty image.

    A publisher whose work grows with the changes also has ``publish_in_steps``, an iterator that does the same and
    lets other work run between its steps. The next publication follows after its end.
    """

    def publish(self, delta: MetadataDelta, new_image: MetadataImage, manifest: LoaderManifest) -> None: ...


def published_in_steps(
    publisher: MetadataPublisher, delta: MetadataDelta, new_image: MetadataImage, manifest: LoaderManifest
) -> Iterator[None]:
    """Publish, in the publisher's own steps if it has some."""
    steps = getattr(publisher, "publish_in_steps", None)
    if steps is None:
        publisher.publish(delta, new_image, manifest)
    else:
        yield from steps(delta, new_image, manifest)
