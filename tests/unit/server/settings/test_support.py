"""The table of what is supported: complete, unambiguous, with a reason for everything that does not work."""

import pytest

from barnabas.common.broker_config import BROKER_CONFIG_DEF
from barnabas.common.config_def import READ_ONLY
from barnabas.common.settings.node_settings import NodeSettings
from barnabas.common.settings.setting import SupportState, attributes_of
from barnabas.server.settings.support import dynamic_support_of, removed_setting, support_of


def test_every_attribute_of_a_node_config_is_a_setting_that_works() -> None:
    for name in attributes_of(NodeSettings):
        assert (name, support_of(name).state) == (name, SupportState.WORKS)


def test_what_is_also_allowed_can_be_parsed() -> None:
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
def test_some_states(name: str, state: SupportState) -> None:
    assert support_of(name).state is state


# OpenSSL stands in for Java's TLS, Prometheus for reporters: these ask for a class or a provider of Java's.
_REFUSED_WHILE_RUNNING = {
    "client.quota.callback.class",
    "metric.reporters",
    "ssl.engine.factory.class",
    "ssl.keymanager.algorithm",
    "ssl.protocol",
    "ssl.provider",
    "ssl.trustmanager.algorithm",
}


def test_what_kafka_takes_while_it_runs_is_stored_here_too_but_for_classes_of_java() -> None:
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


def test_settings_of_older_kafkas_come_with_advice() -> None:
    assert "process.roles" in (removed_setting("zookeeper.connect") or "")
    assert removed_setting("num.partitions") is None
    assert not any(removed_setting(name) for name in BROKER_CONFIG_DEF)
