"""``barnabas storage decrypt-configs``: decrypts sensitive configs before a data directory moves to Kafka.

The node must be stopped. The values are written again, in clear text, at the end of the metadata log. Earlier records
are unchanged. Kafka reads the log in order, so the clear values apply in the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.metadata.image.configs import ConfigResource, ConfigResourceType
from barnabas.metadata.image.record_writer import ApiMessageAndVersion
from barnabas.protocol.record_batch_builder import RecordBatchBuilder
from barnabas.protocol.records.config_record import ConfigRecord
from barnabas.raft.ready import AppendedBatch
from barnabas.security.config_cipher import UndecryptableConfig, is_encrypted, is_sensitive
from barnabas.server.metadata_log.record_serde import MetadataRecordSerde
from barnabas.server.settings.encryption_keys import config_cipher
from barnabas.server.start_errors import NodeStartError
from barnabas.server.storage_tool.formatter import FormatError
from barnabas.storage.errors import StorageError
from barnabas.storage.log_directory import LogDirectory
from barnabas.storage.metadata_log import METADATA_LOG_DIRECTORY, MetadataLog
from barnabas.storage.metadata_reader import read_metadata

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.metadata.image.metadata_image import MetadataImage
    from barnabas.security.config_cipher import ConfigCipher
    from barnabas.server.settings.node_config import NodeConfig

__all__ = ["decrypt_configs"]


def decrypt_configs(config: NodeConfig, *, now_ms: int, write_line: Callable[[str], None]) -> None:
    """Decrypt the configs. Raise FormatError with the reason if that is impossible; then nothing was written."""
    directories = [LogDirectory(path) for path in dict.fromkeys([*config.log_dirs, config.metadata_log_dir])]
    try:
        for directory in directories:
            directory.lock()
        cipher = config_cipher(config)
        found = read_metadata(f"{config.metadata_log_dir}/{METADATA_LOG_DIRECTORY}")
        if found.incomplete is not None:
            raise FormatError(f"{found.incomplete}: start and stop the node, then try again")
        _check_alone(config, found.image)
        records = _clear_records(found.image, cipher)
        if records:
            _append(config, records, now_ms)
    except (NodeStartError, StorageError, UndecryptableConfig) as error:
        raise FormatError(str(error)) from error
    finally:
        for directory in directories:
            directory.unlock()
    for record in records:
        name = record.message.resource_name
        write_line(f"Decrypted {record.message.name} of {f'broker {name}' if name else 'all brokers'}.")
    if not records:
        write_line("No config is encrypted.")
    else:
        write_line("Remove barnabas.config.encryption.keys before the next start, or they are encrypted again.")


def _check_alone(config: NodeConfig, image: MetadataImage) -> None:
    """Raise FormatError unless the controller is alone: other voters would lack its appends."""
    if len(config.quorum_voters) > 1 or len(image.cluster.controllers) > 1:
        raise FormatError("this node is not the only controller of its cluster: its log can't be changed alone")


def _clear_records(image: MetadataImage, cipher: ConfigCipher | None) -> list[ApiMessageAndVersion]:
    records = []
    for name in sorted(image.configs.names(int(ConfigResourceType.BROKER))):
        resource = ConfigResource(int(ConfigResourceType.BROKER), name)
        for setting, value in sorted(image.configs.of(resource).items()):
            if not (is_encrypted(value) and is_sensitive(resource.type, setting)):
                continue
            if cipher is None:
                raise FormatError(
                    "the metadata log has encrypted configs: set barnabas.config.encryption.keys (or its file)"
                )
            clear = cipher.decrypt(resource, setting, value)
            record = ConfigRecord(resource_type=resource.type, resource_name=name, name=setting, value=clear)
            records.append(ApiMessageAndVersion(record, 0))
    return records


def _append(config: NodeConfig, records: list[ApiMessageAndVersion], now_ms: int) -> None:
    """Append all records in one batch, so that they take effect together."""
    serde = MetadataRecordSerde()
    log = MetadataLog(config.metadata_log_dir, now_ms=now_ms)
    try:
        base, snapshot = log.end_offset, log.latest_snapshot_id
        epoch = log.epochs[-1][0] if log.epochs else snapshot.epoch if snapshot is not None else 0
        builder = RecordBatchBuilder(base_offset=base, leader_epoch=epoch)
        for offset, record in enumerate(records, base):
            builder.append(offset, now_ms, None, serde.encode(record))
        log.append(
            AppendedBatch(
                base_offset=base,
                last_offset=base + len(records) - 1,
                epoch=epoch,
                timestamp_ms=now_ms,
                data=builder.build(),
                is_control=False,
            )
        )
        log.flush()
    finally:
        log.close()
