"""The table of supported settings: complete, unambiguous, with a reason for every unsupported one."""

import pytest

from barnabas.common.broker_config import BROKER_CONFIG_DEF
from barnabas.common.config_def import READ_ONLY
from barnabas.common.settings.node_settings import NodeSettings
from barnabas.common.settings.setting import SupportState, attributes_of
from barnabas.server.settings.support import dynamic_support_of, removed_setting, support_of


def test_every_attribute_of_a_node_config_is_a_setting_that_works() -> None:
    for name in attributes_of(NodeSettings):
        assert (name, support_of(name).state) == (name, SupportState.WORKS)


def test_additionally_allowed_values_can_be_parsed() -> None:
    for name in BROKER_CONFIG_DEF:
        for text in support_of(name).also_allowed:
            BROKER_CONFIG_DEF[name].parse(text)


def test_no_required_setting_is_refused() -> None:
    required = [name for name in BROKER_CONFIG_DEF if BROKER_CONFIG_DEF[name].required]
    assert all(support_of(name).state is SupportState.WORKS for name in required)


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("ssl.keystore.location", SupportState.WORKS),
        ("listener.name.x.ssl.keystore.location", SupportState.WORKS),
        ("listener.name.x.principal.builder.class", SupportState.WORKS),
        ("ssl.engine.factory.class", SupportState.REFUSED),
        ("listener.name.x.ssl.provider", SupportState.REFUSED),
        ("listener.name.x.num.network.threads", SupportState.NO_EFFECT),
        ("listener.name.x.connections.max.idle.ms", SupportState.REFUSED),
        ("log.retention.hours", SupportState.WORKS),
        ("log.local.retention.ms", SupportState.NO_EFFECT),
    ],
)
def test_known_settings_have_their_state(name: str, state: SupportState) -> None:
    assert support_of(name).state is state


# OpenSSL replaces Java's TLS and Prometheus replaces reporters: these settings name a Java class or provider.
_REFUSED_WHILE_RUNNING = {
    "client.quota.callback.class",
    "metric.reporters",
    "ssl.engine.factory.class",
    "ssl.keymanager.algorithm",
    "ssl.protocol",
    "ssl.provider",
    "ssl.trustmanager.algorithm",
}


def test_dynamic_settings_of_kafka_are_stored_except_java_classes() -> None:
    taken_by_kafka = [name for name in BROKER_CONFIG_DEF if BROKER_CONFIG_DEF[name].update_mode != READ_ONLY]
    states = {name: support for name in taken_by_kafka if (support := dynamic_support_of(name)) is not None}
    refused = {name for name, support in states.items() if support.state is SupportState.REFUSED}
    assert refused <= _REFUSED_WHILE_RUNNING
    tiered = [name for name in taken_by_kafka if name.startswith(("sasl.kerberos.", "remote."))]
    assert len(tiered) > 10
    assert {states[name].state for name in tiered} == {SupportState.NO_EFFECT}


def test_an_unknown_setting_has_no_state() -> None:
    with pytest.raises(KeyError):
        support_of("num.partitons")


def test_settings_of_older_kafka_releases_have_advice() -> None:
    assert "process.roles" in (removed_setting("zookeeper.connect") or "")
    assert removed_setting("num.partitions") is None
    assert not any(removed_setting(name) for name in BROKER_CONFIG_DEF)
