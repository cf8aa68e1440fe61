"""Every setting works, has no effect or is refused; one that works is read, so that no value is silently ignored."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from barnabas.common.broker_config import BROKER_CONFIG_DEF
from barnabas.common.settings.node_settings import NodeSettings
from barnabas.common.settings.setting import SupportState, attributes_of
from barnabas.common.topic_config import TOPIC_CONFIG_DEF
from barnabas.connect.settings.worker_settings import WORKER_CONFIG_DEF, WorkerSettings
from barnabas.server.settings.support import support_of

SOURCE = Path(__file__).resolve().parents[2] / "src" / "barnabas"
# These create the values and don't use them.
MAKERS = {"node_config.py", "node_config_rules.py", "listener_rules.py", "topic_config.py", "config_resolution.py"}
# Topic values that are read under another name.
READ_AS = {
    "cleanup_policy": "compact",
    "internal_segment_bytes": "segment_size",
    "message_timestamp_type": "log_append_time",
}


@cache
def _code() -> str:
    return "\n".join(path.read_text() for path in sorted(SOURCE.rglob("*.py")) if path.name not in MAKERS)


@pytest.mark.parametrize("name", attributes_of(NodeSettings))
def test_code_reads_every_effective_node_setting(name: str) -> None:
    is_read = bool(re.search(rf"config\.{name.replace('.', '_')}\b", _code()))
    assert is_read, f"no code reads {name}"


@pytest.mark.parametrize("name", TOPIC_CONFIG_DEF)
def test_a_topic_setting_is_read_or_documented_as_without_effect(name: str) -> None:
    attribute = name.replace(".", "_")
    is_read = bool(re.search(rf"config\.{READ_AS.get(attribute, attribute)}\b", _code()))
    if attribute != "remote_storage_enable":  # Validation refuses it, whatever code reads it.
        assert is_read == (TOPIC_CONFIG_DEF[name].support.state is SupportState.WORKS)


def test_every_setting_has_a_state_and_every_ineffective_one_a_reason() -> None:
    for name in BROKER_CONFIG_DEF:
        support = support_of(name)
        assert (name, bool(support.reason)) == (name, support.state is not SupportState.WORKS)


# Worker settings that are read by name, where the name is composed from one of these.
WORKER_FAMILIES = (
    *(
        "ssl.",
        "sasl.",
        "security.",
        "send.",
        "receive.",
        "socket.",
        "request.timeout.",
    ),  # clients, and TLS of the REST API
    *("config.storage.", "offset.storage.", "status.storage."),  # internal topics
    *("key.converter.", "value.converter.", "header.converter."),
    "barnabas.connect.roles.",
)


@cache
def _worker_code() -> str:
    rooms = ("connect", "connect_spark", "server/process", "cli/connect")
    paths = [path for room in rooms for path in sorted((SOURCE / room).rglob("*.py"))]
    return "\n".join(path.read_text() for path in paths if path.name != "worker_settings.py")


@pytest.mark.parametrize("name", attributes_of(WorkerSettings))
def test_a_worker_setting_that_is_an_attribute_is_read(name: str) -> None:
    assert re.search(rf"\.{name.replace('.', '_')}\b", _worker_code()), f"no code reads {name}"


def test_a_worker_setting_without_an_attribute_is_read_by_name() -> None:
    by_name = [
        name
        for name in WORKER_CONFIG_DEF
        if WORKER_CONFIG_DEF[name].support.state is SupportState.WORKS and name not in attributes_of(WorkerSettings)
    ]
    unread = [name for name in by_name if not name.startswith(WORKER_FAMILIES) and f'"{name}"' not in _worker_code()]
    assert unread == []
