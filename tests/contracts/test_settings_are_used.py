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
