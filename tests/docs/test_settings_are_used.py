"""A setting that is said to work is read by something, so that nobody's value is silently ignored."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from barnabas.common.topic_config import TopicConfig
from barnabas.server.settings.node_config import PLAIN_SETTINGS
from barnabas.server.settings.support import TOPIC_SETTINGS_WITHOUT_EFFECT

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


@pytest.mark.parametrize("name", PLAIN_SETTINGS)
def test_a_node_setting_that_works_is_read(name: str) -> None:
    is_read = bool(re.search(rf"config\.{name.replace('.', '_')}\b", _code()))
    assert is_read, f"nothing reads {name}"


@pytest.mark.parametrize("attribute", TopicConfig.__slots__)
def test_a_topic_setting_is_read_or_said_to_have_no_effect(attribute: str) -> None:
    is_read = bool(re.search(rf"config\.{READ_AS.get(attribute, attribute)}\b", _code()))
    said_to_have_none = attribute in {name.replace(".", "_") for name in TOPIC_SETTINGS_WITHOUT_EFFECT}
    if attribute != "remote_storage_enable":  # Refused by validation, whatever it is read by.
        assert is_read != said_to_have_none
