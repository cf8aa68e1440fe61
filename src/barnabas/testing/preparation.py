"""Checks the settings of a node, and formats its directories at the first start."""

from __future__ import annotations

import os

from barnabas.common.scram_mechanism import SCRAM_ITERATIONS_MIN, ScramMechanism
from barnabas.protocol.records.user_scram_credential_record import UserScramCredentialRecord
from barnabas.security.scram_credentials import credential_of_password
from barnabas.server.settings.node_config import NodeConfig, load_node_config
from barnabas.server.storage_tool.formatter import format_storage
from barnabas.testing.launch import Launch

__all__ = ["prepare"]


def prepare(launch: Launch) -> NodeConfig:
    """Return the node's settings. Raise InvalidSettings, FormatError, StorageError or OSError."""
    config = load_node_config(None, [f"{name}={text}" for name, text in launch.settings.items()])
    if not os.path.exists(f"{config.metadata_log_dir}/meta.properties"):
        users = launch.users.items() if launch.initial_controllers is not None else ()
        format_storage(
            config,
            cluster_id=launch.cluster_id,
            initial_controllers=launch.initial_controllers,
            scram_credentials=[record for user, password in users for record in _scram_records(user, password)],
            ignore_formatted=True,
        )
    return config


def _scram_records(user: str, password: str) -> list[UserScramCredentialRecord]:
    records = []
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        salt = os.urandom(16)
        credential = credential_of_password(mechanism, password, salt, SCRAM_ITERATIONS_MIN)
        records.append(
            UserScramCredentialRecord(
                name=user,
                mechanism=int(mechanism),
                salt=salt,
                stored_key=credential.stored_key,
                server_key=credential.server_key,
                iterations=SCRAM_ITERATIONS_MIN,
            )
        )
    return records
