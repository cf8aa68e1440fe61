"""Defects in images, deltas, snapshots of images and the loader."""

from __future__ import annotations

from typing import Any

from tests.simulation.cluster.defects import defect, replace_in


@defect("snapshot-keeps-what-is-gone", "loading a snapshot keeps ACLs that it does not contain")
def _() -> None:
    replace_in("metadata.image.acls", "AclsDelta.finish_snapshot", lambda original: lambda self: None)


@defect("snapshot-without-some-rules", "a snapshot omits the ACLs that deny")
def _() -> None:
    def make(original: Any) -> Any:
        def write(self: Any, writer: Any) -> None:
            before = len(writer.records)
            original(self, writer)
            writer.records[before:] = [
                record for record in writer.records[before:] if record.message.permission_type != 2
            ]

        return write

    replace_in("metadata.image.acls", "AclsImage.write", make)


@defect("snapshot-without-quotas", "a snapshot omits client quotas")
def _() -> None:
    replace_in("metadata.image.client_quotas", "ClientQuotasImage.write", lambda original: lambda self, writer: None)


@defect("snapshot-without-epochs", "a snapshot contains all partitions with leader epoch 0")
def _() -> None:
    def make(original: Any) -> Any:
        def to_record(self: Any, topic_id: Any, partition_id: int, version: Any) -> Any:
            record = original(self, topic_id, partition_id, version)
            record.leader_epoch = 0
            return record

        return to_record

    replace_in("metadata.image.partition_registration", "PartitionRegistration.to_record", make)


@defect("snapshot-without-producer-ids", "a snapshot omits which producer ids were allocated")
def _() -> None:
    replace_in("metadata.image.producer_ids", "ProducerIdsImage.write", lambda original: lambda self, writer: None)


@defect("snapshot-unfences", "a snapshot contains every broker as unfenced")
def _() -> None:
    def make(original: Any) -> Any:
        def to_record(self: Any, writer: Any) -> Any:
            record = original(self, writer)
            record.fenced = False
            return record

        return to_record

    replace_in("metadata.image.cluster", "BrokerRegistration.to_record", make)


@defect("removal-lost-in-a-batch", "an ACL that was created and removed in one publication stays")
def _() -> None:
    def make(original: Any) -> Any:
        def replay_remove(self: Any, record: Any) -> None:
            if record.id in self.changes and record.id not in self.image.by_id:
                return
            original(self, record)

        return replay_remove

    replace_in("metadata.image.acls", "AclsDelta.replay_remove", make)


@defect("leader-epoch-does-not-increase", "a change of leader does not increase the leader epoch")
def _() -> None:
    def make(original: Any) -> Any:
        def merge(self: Any, record: Any) -> Any:
            changed = original(self, record)
            changed.leader_epoch = self.leader_epoch
            return changed

        return merge

    replace_in("metadata.image.partition_registration", "PartitionRegistration.merge", make)


@defect("configs-outlive-their-topic", "a deleted topic leaves its configs behind")
def _() -> None:
    replace_in("metadata.image.configs", "ConfigsDelta.delete_topic", lambda original: lambda self, name: None)


@defect("config-reset-ignored", "a removed quota stays in the image")
def _() -> None:
    def make(original: Any) -> Any:
        def replay(self: Any, record: Any) -> None:
            if not record.remove:
                original(self, record)

        return replay

    replace_in("metadata.image.client_quotas", "ClientQuotasDelta.replay", make)


@defect("transaction-dropped-at-its-end", "the end of a transaction drops its records")
def _() -> None:
    def make(original: Any) -> Any:
        def receive(self: Any, record: Any, offset: int) -> Any:
            effective = original(self, record, offset)
            return () if type(record).__name__ == "EndTransactionRecord" else effective

        return receive

    replace_in("metadata.loader", "TransactionState.receive", make)


@defect("image-one-batch-late", "the loader publishes an image without the last of several batches")
def _() -> None:
    def make(original: Any) -> Any:
        def handle_commit_in_steps(self: Any, batches: Any) -> Any:
            batches = list(batches)
            if len(batches) > 1:
                yield from original(self, batches[:-1])
                self._provenance = self._provenance._replace(last_contained_offset=batches[-1].last_offset)
                self.image = self.image.with_provenance(self._provenance)
            else:
                yield from original(self, batches)

        return handle_commit_in_steps

    replace_in("metadata.loader", "MetadataLoader.handle_commit_in_steps", make)


@defect("image-shared-with-the-next", "an update of a map also changes the original map")
def _() -> None:
    def make(original: Any) -> Any:
        def updated(self: Any, put: Any = None, removed: Any = ()) -> Any:
            result = original(self, put or {}, removed)
            if len(result) < len(self):
                self._buckets, self._mask, self._size = result._buckets, result._mask, result._size
            return result

        return updated

    replace_in("metadata.persistent_map", "PersistentMap.updated", make)


@defect("token-removal-ignored", "an expired token stays in the image")
def _() -> None:
    replace_in(
        "metadata.image.delegation_tokens",
        "DelegationTokensDelta.replay_remove",
        lambda original: lambda self, record: None,
    )
