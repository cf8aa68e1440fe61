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
# These make the values, they don't use them.
MAKERS = {"node_config.py", "node_config_rules.py", "listener_rules.py", "topic_config.py", "config_resolution.py"}
# A topic's values that are asked for under another name.
READ_AS = {
    "cleanup_policy": "compact",
    "internal_segment_bytes": "segment_size",
    "message_timestamp_type": "log_append_time",
}


@cache
def _code() -> str:
    return "\n".join(path.read_text() for path in sorted(SOURCE.rglob("*.py")) if path.name not in MAKERS)


@pytest.mark.parametrize("name", attributes_of(NodeSettings))
def test_a_node_setting_that_works_is_read(name: str) -> None:
    is_read = bool(re.search(rf"config\.{name.replace('.', '_')}\b", _code()))
    assert is_read, f"nothing reads {name}"


@pytest.mark.parametrize("name", TOPIC_CONFIG_DEF)
def test_a_topic_setting_is_read_or_said_to_have_no_effect(name: str) -> None:
    attribute = name.replace(".", "_")
    is_read = bool(re.search(rf"config\.{READ_AS.get(attribute, attribute)}\b", _code()))
    if attribute != "remote_storage_enable":  # Refused by validation, whatever it is read by.
        assert is_read == (TOPIC_CONFIG_DEF[name].support.state is SupportState.WORKS)


def test_every_setting_has_a_state_and_what_does_not_work_a_reason() -> None:
    for name in BROKER_CONFIG_DEF:
        support = support_of(name)
        assert (name, bool(support.reason)) == (name, support.state is not SupportState.WORKS)


# Settings of a worker that are read by their name, and whose name is put together from one of these.
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
    rooms = ("connect", "connect_spark", "server/process")
    paths = [path for room in rooms for path in sorted((SOURCE / room).rglob("*.py"))]
    return "\n".join(path.read_text() for path in paths if path.name != "worker_settings.py")


@pytest.mark.parametrize("name", attributes_of(WorkerSettings))
def test_a_worker_setting_that_is_an_attribute_is_read(name: str) -> None:
    assert re.search(rf"\.{name.replace('.', '_')}\b", _worker_code()), f"nothing reads {name}"


def test_a_worker_setting_that_works_without_an_attribute_is_read_by_its_name() -> None:
    by_name = [
        name
        for name in WORKER_CONFIG_DEF
        if WORKER_CONFIG_DEF[name].support.state is SupportState.WORKS and name not in attributes_of(WorkerSettings)
    ]
    unread = [name for name in by_name if not name.startswith(WORKER_FAMILIES) and f'"{name}"' not in _worker_code()]
    assert unread == []
