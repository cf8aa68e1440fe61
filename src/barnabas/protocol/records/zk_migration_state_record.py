"""ZkMigrationStateRecord (metadata record 21): ignored since Kafka 4.0."""

from barnabas.protocol.schema import Message, int8

__all__ = ["ZkMigrationStateRecord"]


class ZkMigrationStateRecord(Message, api_key=21, versions="0", flexible="0+"):
    zk_migration_state: int = int8()
