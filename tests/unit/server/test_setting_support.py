"""The table of what is supported: complete, unambiguous, with a reason for everything that does not work."""

import pytest

from barnabas.common.broker_config import BROKER_CONFIG_DEF
from barnabas.server.node_config import PLAIN_SETTINGS
from barnabas.server.setting_support import SupportState, removed_setting, support_of


def test_every_setting_has_a_state_and_what_does_not_work_a_reason() -> None:
    for name in BROKER_CONFIG_DEF:
        support = support_of(name)
        assert (name, bool(support.reason)) == (name, support.state is not SupportState.WORKS)
        assert (name, support.reason) != (name, "It is not there yet."), "nobody has thought about this setting"


def test_every_attribute_of_a_node_config_is_a_setting_that_works() -> None:
    for name in PLAIN_SETTINGS:
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


def test_an_unknown_setting_has_no_state() -> None:
    with pytest.raises(KeyError):
        support_of("num.partitons")


def test_settings_of_older_kafkas_come_with_advice() -> None:
    assert "process.roles" in (removed_setting("zookeeper.connect") or "")
    assert removed_setting("num.partitions") is None
    assert not any(removed_setting(name) for name in BROKER_CONFIG_DEF)
