"""Every setting has documentation."""

import pytest

from barnabas.common.broker_config import BROKER_CONFIG_DEF, DYNAMIC_QUOTA_CONFIG_DEF, broker_config_doc
from barnabas.common.config_def import ConfigDef
from barnabas.common.group_config import CLIENT_METRICS_CONFIG_DEF, GROUP_CONFIG_DEF
from barnabas.common.topic_config import TOPIC_CONFIG_DEF


@pytest.mark.parametrize("definitions", [BROKER_CONFIG_DEF, DYNAMIC_QUOTA_CONFIG_DEF], ids=["node", "quotas"])
def test_every_node_setting_is_documented(definitions: ConfigDef) -> None:
    assert [name for name in definitions if not broker_config_doc(name)] == []


@pytest.mark.parametrize(
    "definitions",
    [TOPIC_CONFIG_DEF, GROUP_CONFIG_DEF, CLIENT_METRICS_CONFIG_DEF],
    ids=["topic", "group", "client-metrics"],
)
def test_every_other_setting_is_documented(definitions: ConfigDef) -> None:
    assert [name for name in definitions if not definitions.doc(name)] == []


def test_a_broker_default_is_explained_by_the_setting_that_it_defaults() -> None:
    doc = broker_config_doc("log.retention.hours") or ""
    assert "retention.ms" in doc
    assert (TOPIC_CONFIG_DEF.doc("retention.ms") or "?") in doc
    assert "largest value" in (broker_config_doc("group.streams.max.session.timeout.ms") or "")


def test_an_unknown_setting_has_no_documentation() -> None:
    assert broker_config_doc("no.such") is None
    assert TOPIC_CONFIG_DEF.doc("no.such") is None
