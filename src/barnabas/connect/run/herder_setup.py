"""Derive the settings of a worker's herder, membership and session keys."""

from __future__ import annotations

import logging
import secrets

from barnabas.connect.decide.group.connect_protocol import ProtocolVersion
from barnabas.connect.decide.group.group_settings import GroupSettings
from barnabas.connect.decide.herder.herder_settings import ExactlyOnceSupport, HerderSettings, RestartBudget
from barnabas.connect.decide.session_key import KeyRotation
from barnabas.connect.mac_algorithms import key_size
from barnabas.connect.settings.worker_config import WorkerConfig

__all__ = ["group_settings", "herder_settings", "key_rotation"]

log = logging.getLogger(__name__)


def herder_settings(config: WorkerConfig, *, worker_id: str, url: str) -> HerderSettings:
    protocol = ProtocolVersion.of_config_value(config.connect_protocol)
    if protocol < ProtocolVersion.SESSIONED:
        log.warning(
            "connect.protocol is %s: requests between workers will not be verified, so any client of this worker "
            "can change the tasks of its connectors. Set connect.protocol=sessioned on every worker",
            config.connect_protocol,
        )
    return HerderSettings(
        worker_id=worker_id,
        exactly_once=ExactlyOnceSupport(config.exactly_once_source_support),
        url=url,
        group_id=config.group_id,
        protocol=protocol,
        sync_timeout_ms=config.worker_sync_timeout_ms,
        rebalance_wait_ms=0,  # The REST API waits once for a request, however often it retries.
        is_topic_tracking_enabled=config.topic_tracking_enable,
        restart_budget=RestartBudget(
            max_attempts=config.barnabas_connect_task_restart_max_attempts,
            backoff_ms=config.barnabas_connect_task_restart_backoff_ms,
            backoff_max_ms=config.barnabas_connect_task_restart_backoff_max_ms,
            reset_ms=config.barnabas_connect_task_restart_reset_ms,
        ),
    )


def key_rotation(config: WorkerConfig) -> KeyRotation:
    algorithm = config.inter_worker_key_generation_algorithm
    return KeyRotation(
        algorithm=algorithm,
        size=key_size(algorithm, config.inter_worker_key_size),
        ttl_ms=config.inter_worker_key_ttl_ms,
        random_bytes=secrets.token_bytes,
    )


def group_settings(config: WorkerConfig, *, url: str) -> GroupSettings:
    return GroupSettings(
        group_id=config.group_id,
        url=url,
        protocol=ProtocolVersion.of_config_value(config.connect_protocol),
        session_timeout_ms=config.session_timeout_ms,
        rebalance_timeout_ms=config.rebalance_timeout_ms,
        heartbeat_interval_ms=config.heartbeat_interval_ms,
        worker_sync_timeout_ms=config.worker_sync_timeout_ms,
        worker_unsync_backoff_ms=config.worker_unsync_backoff_ms,
        scheduled_rebalance_max_delay_ms=config.scheduled_rebalance_max_delay_ms,
        task_shutdown_graceful_timeout_ms=config.task_shutdown_graceful_timeout_ms,
        retry_backoff_ms=config.retry_backoff_ms,
        retry_backoff_max_ms=config.retry_backoff_max_ms,
        reassign_immediately=config.barnabas_connect_reassign_immediately,
    )
