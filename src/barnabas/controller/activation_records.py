"""The records that a controller writes first when it becomes active.

On an empty log: the bootstrap records in one transaction, so that no node ever acts on half of them, with
the cluster's min.insync.replicas when eligible leader replicas are on (they need one value that all agree
on). On a log that ends inside a transaction: its abort, because the controller that began it has stopped; if
that transaction was the bootstrap, it starts again. Sensitive configs that the newest key does not encrypt are
encrypted with it.
"""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.common.errors import invariant
from barnabas.controller.controller_config import ControllerConfig
from barnabas.controller.controller_state import ControllerState
from barnabas.controller.sensitive_configs import reencryption_records
from barnabas.metadata.bootstrap import metadata_version_of
from barnabas.metadata.features import ELIGIBLE_LEADER_REPLICAS_VERSION
from barnabas.metadata.image.configs import ConfigResourceType
from barnabas.metadata.image.record_writer import ApiMessageAndVersion
from barnabas.protocol.records.abort_transaction_record import AbortTransactionRecord
from barnabas.protocol.records.begin_transaction_record import BeginTransactionRecord
from barnabas.protocol.records.config_record import ConfigRecord
from barnabas.protocol.records.end_transaction_record import EndTransactionRecord
from barnabas.protocol.records.feature_level_record import FeatureLevelRecord

__all__ = ["activation_records"]


def activation_records(
    state: ControllerState, config: ControllerConfig, bootstrap: Sequence[ApiMessageAndVersion]
) -> list[list[ApiMessageAndVersion]]:
    """Yield the sets of records to append, each atomic; usually none."""
    result: list[list[ApiMessageAndVersion]] = []
    if state.transaction.is_open:
        state.abort_open_transaction()
        result.append([ApiMessageAndVersion(AbortTransactionRecord(reason="Controller failover"), 0)])
    if state.image.features.metadata_version is None:
        invariant(bootstrap, "the log is empty and has no bootstrap records: was the directory formatted?")
        result.append(_bootstrap_transaction(config, bootstrap))
    else:
        reencrypted = reencryption_records(state, config)
        if reencrypted:
            result.append(reencrypted)
    return result


def _bootstrap_transaction(
    config: ControllerConfig, bootstrap: Sequence[ApiMessageAndVersion]
) -> list[ApiMessageAndVersion]:
    records = list(bootstrap)
    if _is_elr_enabled(bootstrap):
        record = ConfigRecord(
            resource_type=int(ConfigResourceType.BROKER),
            resource_name="",
            name="min.insync.replicas",
            value=str(config.min_insync_replicas),
        )
        records.append(ApiMessageAndVersion(record, 0))
    if not metadata_version_of([message for message, _ in bootstrap]).is_metadata_transaction_supported:
        return records
    return [
        ApiMessageAndVersion(BeginTransactionRecord(name="Bootstrap records"), 0),
        *records,
        ApiMessageAndVersion(EndTransactionRecord(), 0),
    ]


def _is_elr_enabled(bootstrap: Sequence[ApiMessageAndVersion]) -> bool:
    return any(
        isinstance(message, FeatureLevelRecord)
        and message.name == ELIGIBLE_LEADER_REPLICAS_VERSION
        and message.feature_level > 0
        for message, _ in bootstrap
    )
