"""An image as records, in the order in which a snapshot holds them.

metadata.version comes first; then the other features, brokers, controllers, each topic followed by its
partitions, configs, client quotas, producer ids, ACLs, SCRAM credentials, delegation tokens. A snapshot has neither
removals nor NoOps nor transaction markers. Each group is sorted, so that equal images lead to equal
snapshots.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from barnabas.metadata.image.metadata_image import MetadataDelta, MetadataImage, MetadataProvenance
from barnabas.metadata.image.record_writer import ApiMessageAndVersion, RecordWriter
from barnabas.metadata.metadata_version import MetadataVersion

__all__ = ["image_from_records", "pieces_of", "records_of", "write_image"]

_RECORDS_A_PIECE: Final = 1_024


def write_image(image: MetadataImage, writer: RecordWriter) -> None:
    for part in (
        image.features,
        image.cluster,
        image.topics,
        image.configs,
        image.client_quotas,
        image.producer_ids,
        image.acls,
        image.scram,
        image.delegation_tokens,
    ):
        part.write(writer)


def records_of(image: MetadataImage, metadata_version: MetadataVersion | None = None) -> list[ApiMessageAndVersion]:
    """Return the records of a snapshot, by default at the image's own metadata.version."""
    writer = RecordWriter(image.features.metadata_version_or_throw() if metadata_version is None else metadata_version)
    write_image(image, writer)
    return writer.records


def pieces_of(records: list[ApiMessageAndVersion]) -> Iterator[Sequence[ApiMessageAndVersion]]:
    """Yield the records, some at a time, and remove them from the list: freeing 400,000 can't be interrupted."""
    records.reverse()
    while records:
        piece = records[: -_RECORDS_A_PIECE - 1 : -1]
        del records[-_RECORDS_A_PIECE:]
        yield piece


def image_from_records(
    records: Iterable[object], provenance: MetadataProvenance, base: MetadataImage = MetadataImage.EMPTY
) -> MetadataImage:
    """Return the image that a snapshot with these messages describes, whatever ``base`` held before."""
    delta = MetadataDelta(base, is_snapshot=True)
    for record in records:
        delta.replay(record)
    delta.finish_snapshot()
    return delta.apply(provenance)
