"""Start with a million ACLs in the metadata log: the time until a user without super user rights gets an answer.

The log is written once and started by both sides, ours first: it has Kafka's format. A node must not answer before it
has read all of them, because the last rule could be a denial.
"""

from __future__ import annotations

import shutil
import time
from itertools import islice
from pathlib import Path

from barnabas.common.acl import AclBinding, AclOperation, AclPermissionType
from barnabas.common.resource import PatternType, ResourceType
from barnabas.common.uuid import Uuid
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.record_batch_builder import RecordBatchBuilder
from barnabas.protocol.record_serde import encode_metadata_record
from barnabas.protocol.records.access_control_entry_record import AccessControlEntryRecord
from barnabas.raft.ready import AppendedBatch
from barnabas.storage.metadata_log import MetadataLog
from bench.authorizer_shapes import make_shape
from bench.sides import SIDES, new_node, usage_of
from tests.peers import KafkaNode
from tests.peers.acl_stage import log_in, secure_settings
from tests.peers.command_node import CommandNode

__all__ = ["measure_start_with_acls"]

CALLER = "caller"
TOPIC = "open-to-the-caller"
_PER_BATCH = 2_000
_LIMIT_S = 300
_KAFKA_HEAP = "3g"
"""With the usual 1 GiB it runs out of memory here."""
_OWN_RULE = AclBinding(
    ResourceType.TOPIC, TOPIC, PatternType.LITERAL, f"User:{CALLER}", "*", AclOperation.READ, AclPermissionType.ALLOW
)


def measure_start_with_acls(folder: Path, shape: str = "tenant 1M") -> dict[str, dict[str, float]]:
    """Figures by side. The folder must be empty, and is left with the logs."""
    data = folder / "data"
    first = new_node("barnabas", folder / "first")
    first.change_settings({**secure_settings(first, [CALLER]), "log.dirs": str(data)})
    first.start()
    first.stop()
    _append(data, [*make_shape(shape).acls, _OWN_RULE])
    figures = {}
    for side in reversed(SIDES):
        node = new_node(side, folder / side, heap=_KAFKA_HEAP)
        node.change_settings({**secure_settings(node, [CALLER]), "log.dirs": str(folder / side / "data")})
        shutil.copytree(data, folder / side / "data")
        if isinstance(node, KafkaNode):
            node.write_properties()
        figures[side] = _started(node)
        print(f"start with {shape}: {side}: {figures[side]}", flush=True)
    return figures


def _started(node: KafkaNode | CommandNode) -> dict[str, float]:
    began = time.perf_counter()
    try:
        node.start(timeout_s=_LIMIT_S)
        while not _is_answered(node.port):
            assert time.perf_counter() - began < _LIMIT_S, "the rules never were there"
            time.sleep(0.02)
        elapsed, usage = time.perf_counter() - began, usage_of(node.pid)
    finally:
        node.stop(timeout_s=120)
    return {
        "start to the first answer with 1M ACLs, s": elapsed,
        "CPU of it, s": usage.cpu_s,
        "resident with 1M ACLs, MiB": usage.resident_mib,
    }


def _is_answered(port: int) -> bool:
    """Return whether the answer names a missing topic that the caller may read."""
    try:
        client = log_in(port, CALLER, timeout_s=_LIMIT_S)
        topics = [MetadataRequestTopic(name=TOPIC)]
        (topic,) = client.call(MetadataRequest(topics=topics, allow_auto_topic_creation=False), 12).topics
        client.close()
    except OSError:
        return False
    return bool(topic.error_code == 3)


def _append(data: Path, acls: list[AclBinding]) -> None:
    """Behind the last record of a log whose node is stopped, in its last epoch: committed when a node leads again."""
    log = MetadataLog(str(data))
    epoch = log.epochs[-1][0]
    now_ms = time.time_ns() // 1_000_000
    remaining = iter(enumerate(acls, 1 << 64))
    while batch := list(islice(remaining, _PER_BATCH)):
        base = log.end_offset
        builder = RecordBatchBuilder(base_offset=base, leader_epoch=epoch)
        for offset, (number, acl) in enumerate(batch, base):
            builder.append(offset, now_ms, None, encode_metadata_record(_record(number, acl), 0))
        last = base + len(batch) - 1
        log.append(
            AppendedBatch(
                base_offset=base,
                last_offset=last,
                epoch=epoch,
                timestamp_ms=now_ms,
                data=builder.build(),
                is_control=False,
            )
        )
    log.flush()
    log.close()


def _record(number: int, acl: AclBinding) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        id=Uuid.from_int(number),
        resource_type=acl.resource_type,
        resource_name=acl.name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )
